"""Commands on terminals, pipes and disks that take less than everything, each as a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import SMALLEST, Command

ROOT = Path(__file__).parents[2]
PYTHON = f"{sys.executable} -m"

pytestmark = [pytest.mark.slow, pytest.mark.long]


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash; its status is that of the first command of a pipe."""
    line = line.replace("python -m", PYTHON) + '; exit "${PIPESTATUS[0]}"'
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        ["bash", "-c", line], cwd=ROOT, env=env, capture_output=True, text=True, timeout=100, encoding="utf-8"
    )


LINES = (
    "python -m bepo.doctor | head -1",
    "python -m bepo.sweep main_sokoban --dry-run | :",
    "python -m bepo.train --help | :",
    "python -m bepo --help | :",
    "python -m bepo.credit --list 2>&- | :",
)


@pytest.mark.parametrize("line", LINES)
def test_a_closed_pipe_is_a_quiet_end(line):
    done = shell(line)
    assert done.returncode == 0 and done.stderr == ""


@pytest.mark.parametrize("line", ["bepo.doctor --json", "bepo.sweep main_sokoban --dry-run", "bepo --help"])
def test_a_full_disk_behind_standard_output_is_named(line):
    done = shell(f"python -m {line} > /dev/full")
    assert done.returncode == 2 and done.stderr.startswith("error: standard output")
    assert "No space left" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "line, environment",
    [
        ("bepo.doctor", {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
        ("bepo.view 5d43bb --text", {"PYTHONIOENCODING": "ascii"}),
    ],
)
def test_a_terminal_of_ascii_is_printed_to(line, environment):
    done = shell(f"python -m {line}", **environment)
    assert done.returncode == 0 and done.stdout.isascii() and done.stderr == ""
    assert line != "bepo.doctor" or "\n  + sokoban" in done.stdout


@pytest.mark.parametrize(
    "name, value", [("MPLBACKEND", "nope"), ("MATPLOTLIBRC", "paper/runs/laptop/5d43bbcc9bce.zip")]
)
def test_settings_that_matplotlib_cannot_use_are_named(name, value):
    done = shell("python -m analysis sokoban-text --source published", **{name: value})
    line = done.stderr.splitlines()[-1]
    assert done.returncode == 2 and line.startswith(f"error: {name}={value}: ") and "Traceback" not in done.stderr


def test_a_closed_standard_input_is_an_empty_one():
    done = shell("python -m bepo.play sokoban <&-")
    assert done.returncode == 0 and done.stderr == "" and "stopped: score 0" in done.stdout


SMALL = [option for option in SMALLEST if not option.startswith(("progress", "updates"))]
SWEEP = ("main_sokoban", "credit=grpo", "seed=0", "tier=smoke", *SMALL, "updates=2")


def test_a_sweep_goes_on_without_a_reader(tmp_path):
    command = Command("tests.commands.without_a_reader", *SWEEP, f"results={tmp_path}")
    assert command.communicate() == ("", "") and command.returncode == 0
    assert len(list(tmp_path.glob("runs/*/run.json"))) == 1


def test_a_page_of_a_folder_that_is_read_only_is_written_here(tmp_path):
    run = "paper/runs/laptop/5d43bbcc9bce.zip"
    (tmp_path / "results").mkdir(mode=0o555)
    here = ["--results", str(tmp_path / "results")]
    for arguments in (["bepo.view", run, "--no-open"], ["analysis", "curves", run]):
        command = [sys.executable, "-m", "tests.without_rights", *arguments, *here]
        command[command.index(run)] = str(ROOT / run)
        done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True)
        assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "views").iterdir()} == {
        "5d43bb.html", "curves-5d43bb.png", "curves-5d43bb.pdf"
    }  # fmt: skip
