"""The commit of the running source code.

It is read when this module is imported, because a later commit does not change the code that runs. Only files that a
run imports or reads count as its source (``FILES``), tracked by git or not. Tests, documents and notebooks do not.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

FILES = ("bepo/*.py", "bepo/*.yaml", "conf/*.yaml", "experiments/*.yaml")
"""The sources of a run as git patterns, relative to the top of the tree. ``*`` also matches slashes."""


def source_state(root: Path) -> dict[str, Any]:
    """Return the ``commit`` of the source tree at ``root``, and whether it is ``dirty``: has uncommitted changes.

    Both are None outside a git checkout.
    """

    def git(*args: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", root, *args], capture_output=True, text=True, check=True, encoding="utf-8"
            )
        except (OSError, subprocess.CalledProcessError):
            return None
        return done.stdout.strip()

    if git("rev-parse", "--show-toplevel") != str(root.resolve()):  # an installed copy inside another repository
        return {"commit": None, "dirty": None}
    status = git("status", "--porcelain", "--untracked-files=all", "--", *FILES)
    return {"commit": git("rev-parse", "HEAD"), "dirty": None if status is None else bool(status)}


SOURCE = source_state(Path(__file__).parents[2])
"""The commit of the imported code, and whether it had uncommitted changes."""
