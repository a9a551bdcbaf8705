"""``bepo COMMAND``: every command under one name."""

import resource
import shutil
import subprocess
import sys
from importlib.metadata import version

import pytest

from bepo import __main__ as bepo
from bepo.complete import completions


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["bepo", *arguments])
    return bepo.main()


def test_every_command_is_listed_with_what_it_is_for(monkeypatch, capsys):
    assert run(monkeypatch) == 0
    out = capsys.readouterr().out
    assert {"train", "sweep", "view", "doctor", "credit", "analysis"} <= bepo.commands().keys()
    assert "interface" not in bepo.commands()  # of Python
    for name in bepo.commands():
        (line,) = [line for line in out.splitlines() if line.split()[:1] == [name]]
        assert len(line.split()) > 3, line


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_completion_prints_words_and_no_warning(monkeypatch, capsys):
    assert run(monkeypatch, "complete", "train credit=gate_r") == 0
    assert capsys.readouterr() == ("credit=gate_repeat_only\n", "")


def test_the_version_is_that_of_the_package(monkeypatch, capsys):
    assert run(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"bepo {version('bepo')}\n"


def test_a_command_gets_its_arguments(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "bepo.credit.__main__", raising=False)  # else runpy warns that it was imported
    with pytest.raises(SystemExit, match="0"):
        run(monkeypatch, "credit", "--list")
    assert "gated_bepo" in capsys.readouterr().out


def test_a_misspelt_command_gets_the_nearest(monkeypatch, capsys):
    assert run(monkeypatch, "trian") == 2
    err = capsys.readouterr().err
    assert "unknown command 'trian'" in err and "did you mean train?" in err and err.count("\n") == 1


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    "line, words",
    [
        ("bepo vi", ["view"]),
        ("bepo train env=soko", ["sokoban"]),  # of bash's own word, which begins behind =
        ("bepo evaluate env=sokoban credit.gate_or", ["credit.gate_order="]),
        ("bepo train credit=grpo credit.gate_or", []),  # a setting of another estimator
        ("bepo train credit=gigpo_p", ["gigpo_paper"]),  # a preset
        ("bepo train credit.gate_order=ma", ["mask"]),
        ("bepo train progress=", ["false", "true"]),
        ("bepo sweep main_alf", ["main_alfworld"]),
        ("bepo train -cd experiments -cn main_alf", ["main_alfworld"]),
        ("bepo sweep main_alfworld --ret", ["--retrain"]),
        ("bepo view 5d43bbcc9", ["5d43bbcc9bce"]),
        ("bepo evaluate run=5d43bbcc9", ["5d43bbcc9bce"]),
        ("bepo play soko", ["sokoban"]),
    ],
)
def test_bash_completes_commands_and_configs(line, words, monkeypatch, capsys):
    run(monkeypatch, "--completion")
    script = f"""bepo() {{ {sys.executable} -m bepo "$@"; }}
before=$COMP_WORDBREAKS
{capsys.readouterr().out}
COMP_LINE="{line}"; COMP_POINT={len(line)}
_bepo; printf '%s\\n' "${{COMPREPLY[@]}}"
[ "$before" = "$COMP_WORDBREAKS" ] || echo "COMP_WORDBREAKS belongs to the shell"
"""
    found = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, encoding="utf-8")
    assert found.stdout.split() == words, found.stderr


@pytest.mark.parametrize("line", ["train credit=gi", "sweep main", "view 5d43"])
def test_a_completion_takes_little_time(line):
    """CPU seconds, because a busy machine says nothing about the wall clock. The first answer fills the cache."""
    command = [sys.executable, "-m", "bepo", "complete", line]
    subprocess.run(command, capture_output=True, check=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = subprocess.run(command, capture_output=True, check=True, encoding="utf-8").stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert found and after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.3


def test_completion_offers_no_name_that_a_shell_would_expand(tmp_path):
    for name in ("abc123", "$(touch x)", "a b", "`ls`"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    assert completions(["view", f"--results={tmp_path}"], "abc1") == ["abc123"]
    assert not [word for word in completions(["view", f"--results={tmp_path}"], "") if "$" in word or "`" in word]
