"""Which source code a process runs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any


def source_state() -> dict[str, Any]:
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
