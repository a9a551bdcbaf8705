"""Options that many commands share: numbers, paths, plug-ins, and what a command may write."""

import argparse
import errno
import multiprocessing
import resource
import signal
from pathlib import Path

import pytest

from bepo.core.errors import Parser, path_of, whole_number
from bepo.store.files import DiskFull, disk_errors, write_atomically
from tests.command import python

PLUGIN = '''
from dataclasses import dataclass
from typing import ClassVar, Literal
from bepo.credit import Credit, Estimator, Traits, register

@register
@dataclass
class Named(Estimator):
    """Credit every transition with its trajectory's return."""
    name: Literal["named_on_the_line"] = "named_on_the_line"
    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "none"
    traits: ClassVar[Traits] = {"needs": "rewards", "step_credit": "-", "temporal": "No", "mixing": "None"}

    def __call__(self, batch):
        return Credit(batch.episode_return[batch.trajectory])
'''


@pytest.mark.parametrize("text", ["x", "", "1.5", "1e3", "0x10", "٣", "9" * 5_000, "--", "1 2"])
def test_what_is_no_whole_number_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="must be a whole number"):
        whole_number(0, 10)(text)


def test_a_whole_number_is_in_its_range():
    read = whole_number(0, 10)
    assert [read(text) for text in ("0", "10", "+3", " 7 ")] == [0, 10, 3, 7]
    for text in ("-1", "11", "99999999999999999999999"):
        with pytest.raises(argparse.ArgumentTypeError, match=f"^{text}: must be at least 0 and at most 10$"):
            read(text)


def test_a_tilde_in_a_path_is_the_home(monkeypatch):
    monkeypatch.setenv("HOME", "/somewhere")
    assert path_of("~/runs") == Path("/somewhere/runs") and path_of("a~") == Path("a~")


def test_an_unknown_option_is_printed_without_its_escapes(capsys):
    with pytest.raises(SystemExit):
        Parser(prog="x").parse_args(["--no\x1b[31mpe\x07"])
    err = capsys.readouterr().err
    assert err == "error: unrecognized arguments: --no [31mpe  (see x --help)\n"


def test_an_unknown_option_of_a_multirun_is_named_alone():
    done = python("-m", "bepo.train", "-m", "credit.n_min=1,2", "--dry")
    assert done.returncode == 2 and done.stderr == "error: unrecognized arguments: --dry (see --help)\n"


def test_a_plugin_is_named_on_the_command_line(tmp_path):
    """In a process of its own, because a plug-in stays registered."""
    (tmp_path / "named_on_the_line.py").write_text(PLUGIN, encoding="utf-8")
    arguments = [f"plugins={tmp_path}/named_on_the_line.py", "--rollouts", "tests/data/credit_golden.json"]
    done = python("-m", "bepo.credit", "named_on_the_line", *arguments)
    assert done.returncode in (0, 2) and "unknown" not in done.stderr and "Traceback" not in done.stderr


def _limited(path: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        write_atomically(path, bytes(2_000))
    except DiskFull as error:
        raise SystemExit(0 if "may not become so large here" in str(error) else 3) from None
    raise SystemExit(4)


def test_a_file_that_may_not_become_so_large_is_one_line(tmp_path):
    process = multiprocessing.get_context("fork").Process(target=_limited, args=(tmp_path / "x",))
    process.start()
    process.join()
    assert process.exitcode == 0 and not list(tmp_path.iterdir())
    for error in (OSError(errno.EFBIG, "File too large"), RuntimeError("IoError: File too large (os error 27)")):
        with pytest.raises(DiskFull, match=r"raise the limit \(ulimit -f\)"), disk_errors(tmp_path):
            raise error
