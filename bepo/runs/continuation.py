"""How a longer run continues a finished run with fewer updates."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from bepo.store.files import Corrupt
from bepo.store.json_files import read_object
from bepo.store.run_files import RUN, read_run
from bepo.store.runs import RunFolder, run_id


def continue_shorter_run(folder: RunFolder, identity: dict[str, Any]) -> None:
    """Copy the checkpoint of the longest finished run that differs only in ``updates`` into a new run's folder.

    Print a line on stderr for a finished run that kept no checkpoint or whose files changed.
    """
    for updates, shorter in _shorter_runs(folder, identity):
        try:
            read_run(shorter.path)
            if updates in dict(shorter.checkpoints()):
                folder.continue_from(shorter, updates)
                print(f"run {folder.id} continues from update {updates} of run {shorter.id}", file=sys.stderr)
                return
        except Corrupt as problem:
            print(f"{problem}; run {folder.id} does not continue from it", file=sys.stderr)
            continue
        print(
            f"run {shorter.id} of {updates} updates kept only its policy, so run {folder.id} starts at update 0; "
            "only runs with keep=resume can be continued",
            file=sys.stderr,
        )


def _shorter_runs(folder: RunFolder, identity: dict[str, Any]) -> list[tuple[int, RunFolder]]:
    """Return the updates and the folders of finished runs that differ only in ``updates``, the longest first.

    With ``evaluation.late_passes`` nothing is returned: a shorter run made its late passes at other updates.
    """
    if identity["evaluation"].get("late_passes"):
        return []
    shorter = []
    for path in folder.results.glob(f"runs/*/{RUN}"):
        with suppress(Corrupt):
            stored = read_object(path, "run file").get("identity")
            updates = stored.get("updates") if isinstance(stored, dict) else None
            is_shorter = isinstance(updates, int) and updates < identity["updates"]
            if is_shorter and run_id(identity | {"updates": updates}) == path.parent.name:
                shorter.append((updates, RunFolder(folder.results, path.parent.name)))
    return sorted(shorter, key=lambda pair: pair[0], reverse=True)
