"""Which source code a process runs.

The state is read while this module is imported: a commit that is made later is not the one whose code runs.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any


def _source_state() -> dict[str, Any]:
    """Return the commit of the source tree and whether the package has uncommitted changes; None outside a checkout.

    Changed files of the package count, and new Python files, because plug-in folders are imported whole. Nothing else
    does: other folders are not imported, and a run's ``config.json`` holds every setting that ``conf/`` and
    ``experiments/`` had.
    """
    root = Path(__file__).parents[1]

    def git(*args: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", root, *args], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        return done.stdout.strip()

    status = git("status", "--porcelain", "--untracked-files=all", "--", ".")
    dirty = None if status is None else any(_is_code(line) for line in status.splitlines())
    return {"commit": git("rev-parse", "HEAD"), "dirty": dirty}


def _is_code(line: str) -> bool:
    """Return whether a line of ``git status --porcelain`` is about code: not a new file that nothing imports."""
    return not line.startswith("??") or line.rstrip('"').endswith(".py")


SOURCE = _source_state()
"""The commit of the imported code, and whether it had uncommitted changes."""
