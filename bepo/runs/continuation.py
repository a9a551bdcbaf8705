"""How a longer run continues a finished run with fewer updates."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bepo.core.errors import UserError
from bepo.store.files import Corrupt
from bepo.store.json_files import read_object, read_sealed, write_sealed
from bepo.store.run_files import RUN, read_run
from bepo.store.runs import RunFolder, run_id

_START = "start.json"
_PARTS = ("weights", "warm_start")  # of ``bepo.training.starting_policy.start_metadata``


def continue_shorter_run(folder: RunFolder, identity: dict[str, Any], start: Mapping[str, Any]) -> None:
    """Copy the checkpoint of the longest finished run that differs only in ``updates`` into a new run's folder.

    Print a line on stderr for a finished run that cannot be continued: it kept no checkpoint, its files changed, or it
    began with other weights than ``start``.
    """
    for updates, shorter in _shorter_runs(folder, identity):
        try:
            read_run(shorter.path)
            if checkpoint := dict(shorter.checkpoints()).get(updates):
                if problem := _other_start(checkpoint, start):
                    print(f"run {shorter.id} {problem}; run {folder.id} starts at update 0", file=sys.stderr)
                    continue
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


def write_start(checkpoint: Path, start: Mapping[str, Any]) -> None:
    """Note in a checkpoint the weights and the warm start of its run, which are also the reference of its KL term."""
    write_sealed(checkpoint / _START, {part: start[part] for part in _PARTS if part in start})


def refuse_other_start(folder: RunFolder, start: Mapping[str, Any]) -> None:
    """Raise ``UserError`` if a run would go on with another start than it began with. Older checkpoints do not say."""
    for _, checkpoint in folder.checkpoints()[:1]:
        with suppress(Corrupt):  # ``rewind`` names a damaged checkpoint
            if problem := _other_start(checkpoint, start):
                raise UserError(
                    f"run {folder.id}: {problem}; go on with the device, the threads (backend.threads, OMP_NUM_THREADS)"
                    " and the warm starts of its first session, or in another results folder"
                )


def _other_start(checkpoint: Path, start: Mapping[str, Any]) -> str:
    """Return how the start of a checkpoint's run differs from ``start``, in all that both state; empty: it does not."""
    if not (checkpoint / _START).exists():
        return ""
    began = read_sealed(checkpoint / _START, "start of a run")
    for part in _PARTS:
        before, now = began.get(part), start.get(part)
        if (before is None) != (now is None) or any(
            (before or {})[name] != value for name, value in (now or {}).items()
        ):
            return f"began with the {part.replace('_', ' ')} {_told(before)}, and would go on with {_told(now)}"
    return ""


def _told(start: Mapping[str, str] | None) -> str:
    """Return the name and the beginning of the digest, as far as they are known."""
    return " ".join(filter(None, [start.get("name"), start.get("digest", "")[:12]])) if start else "none"


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
