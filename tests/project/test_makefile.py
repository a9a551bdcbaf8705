"""The Makefile passes on what it is given, spaces included."""

import os
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKE = shutil.which("make")


@pytest.mark.skipif(MAKE is None, reason="there is no make")
@pytest.mark.parametrize("target, commands", [("reproduce", 3), ("smoke", 0), ("paper", 1)])
def test_a_results_folder_may_have_spaces_in_its_name(target, commands, tmp_path):
    """Its Python only notes what it is told."""
    python, seen = tmp_path / "python", tmp_path / "seen"
    python.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> "{seen}"\n', encoding="utf-8")
    python.chmod(0o755)
    for name, program in {"mkdir": "mkdir", "latexmk": "true"}.items():
        if target == "paper":
            (tmp_path / name).symlink_to(shutil.which(program) or program)
    nothing = ["--old-file=.venv/installed", "PYTHON=false"]  # no environment is made
    told = [MAKE, target, *nothing, f"BIN={tmp_path}", "RESULTS=my results", "TIER=laptop"]
    subprocess.run(told, cwd=ROOT, check=True, env={**os.environ, "PATH": str(tmp_path)}, stdout=subprocess.DEVNULL)
    lines = seen.read_text(encoding="utf-8").splitlines()
    assert [after for before, after in pairwise(lines) if before == "--results"] == ["my results"] * commands
    assert lines.count("results=my results") == (target == "smoke")  # of bepo.sweep
