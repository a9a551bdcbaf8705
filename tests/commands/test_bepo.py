"""``bepo COMMAND``: every command under one name."""

import shutil
import subprocess
import sys
from importlib.metadata import version

import pytest

from bepo import __main__ as bepo


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["bepo", *arguments])
    return bepo.main()


def test_every_command_is_listed_with_what_it_is_for(monkeypatch, capsys):
    assert run(monkeypatch) == 0
    out = capsys.readouterr().out
    assert {"train", "sweep", "view", "doctor", "credit", "analysis"} <= bepo.commands().keys()
    for name in bepo.commands():
        (line,) = [line for line in out.splitlines() if line.split()[:1] == [name]]
        assert len(line.split()) > 3, line


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
