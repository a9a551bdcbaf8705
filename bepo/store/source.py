"""Which source code a process runs.

It is asked for while this module is imported: a commit that is made later is not the one whose code runs.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any


def _source_state() -> dict[str, Any]:
    """Return the commit of the source tree and whether it has uncommitted changes; both None outside a checkout."""
    root = Path(__file__).parent

    def git(*args: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", root, *args], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        return done.stdout.strip()

    status = git("status", "--porcelain")
    return {"commit": git("rev-parse", "HEAD"), "dirty": None if status is None else bool(status)}


SOURCE = _source_state()
"""The commit of the imported code, and whether it had uncommitted changes."""
