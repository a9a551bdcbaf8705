"""Which source code a process runs.

It is asked for while this module is imported: a commit that is made later is not the one whose code runs.

Only what a run imports or reads counts as its source: the files that ``FILES`` names, tracked by git or not. Tests,
documents, notebooks and other files beside them do not change a run.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

FILES = ("bepo/*.py", "bepo/*.yaml", "conf/*.yaml", "experiments/*.yaml")
"""The sources of a run, as patterns of git from the top of the tree; ``*`` matches folders, too."""


def source_state(root: Path) -> dict[str, Any]:
    """Return the commit of the source tree at ``root``, and whether a source of runs has uncommitted changes.

    Both are None outside a checkout.
    """

    def git(*args: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", root, *args], capture_output=True, text=True, check=True, encoding="utf-8"
            )
        except (OSError, subprocess.CalledProcessError):
            return None
        return done.stdout.strip()

    status = git("status", "--porcelain", "--untracked-files=all", "--", *FILES)
    return {"commit": git("rev-parse", "HEAD"), "dirty": None if status is None else bool(status)}


SOURCE = source_state(Path(__file__).parents[2])
"""The commit of the imported code, and whether it had uncommitted changes."""
