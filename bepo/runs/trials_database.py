"""Where Optuna trials are stored: the database of a results folder, or a journal for shared file systems."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from bepo.store.published import TRIALS

if TYPE_CHECKING:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.trial import FrozenTrial

JOURNALS = "*.journal"
"""The pattern of Optuna's journals in a results folder."""
_SCHEME = "journal:///"
_BLOCK = 1 << 16  # bytes that are read at a time, from the end of a journal
_search_name: list[str] = []


def name_search(name: str) -> None:
    """Set the name of the study of this process's search, ``${search_name:}`` in configs."""
    _search_name[:] = [name]


def search_name() -> str | None:
    """Return the name of the study of this process's search; None if no search has begun."""
    return _search_name[0] if _search_name else None


def database_url(folder: str | Path) -> str:
    """Return the URL of a folder's database, with special characters such as ``?`` quoted."""
    from sqlalchemy import URL  # imported late, because most runs do not need it

    return URL.create("sqlite", database=str(Path(folder) / TRIALS)).render_as_string()


def journal_file(storage: str) -> Path | None:
    """Return the file of a journal, ``journal:///FILE`` or a path that ends in ``.journal``; None for a database.

    As in URLs of databases, three slashes begin a relative path, and four an absolute one.
    """
    if storage.startswith(_SCHEME):
        return Path(storage.removeprefix(_SCHEME))
    return Path(storage) if storage.endswith(".journal") and "://" not in storage else None


def opened(storage: str) -> str | JournalStorage:
    """Return the storage of a study for Optuna: the URL of a database, or an open journal.

    A journal needs no working locks of the file system: its lock is a symbolic link. A last line that a killed process
    left incomplete is removed before anything is written behind it, because Optuna could not read such a journal again.
    """
    if (file := journal_file(storage)) is None:
        return storage
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock

    class Lock(JournalFileSymlinkLock):
        def acquire(self) -> bool:
            held = super().acquire()
            try:
                drop_incomplete_line(file)
            except BaseException:
                self.release()
                raise
            return held

    return JournalStorage(JournalFileBackend(str(file), Lock(str(file))))


def finite_trials(study: optuna.Study) -> list[FrozenTrial]:
    """Return the complete trials whose values are all finite. Older versions stored infinite values."""
    from optuna.trial import TrialState

    complete = study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
    return [trial for trial in complete if all(map(math.isfinite, trial.values))]


def best_trials(study: optuna.Study) -> list[FrozenTrial]:
    """Return the Pareto front of ``finite_trials``."""
    import optuna

    finite = finite_trials(study)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    of_finite = optuna.create_study(directions=study.directions)
    of_finite.add_trials(finite)
    return [finite[trial.number] for trial in of_finite.best_trials]


def drop_incomplete_line(file: Path) -> None:
    """Remove the last line of a file of JSON lines if it has no end or is not JSON."""
    with file.open("rb+") as lines:
        end = lines.seek(0, os.SEEK_END)
        start = _last_line(lines, end)
        lines.seek(start)
        line = lines.read()
        if line and not (line.endswith(b"\n") and _is_json(line)):
            print(f"{file}: removed its last line, which is incomplete", file=sys.stderr)
            lines.truncate(start)


def _last_line(lines: BinaryIO, end: int) -> int:
    """Return where the last line of a file of ``end`` bytes begins."""
    start, place = end - 1, -1  # without the last line's own end
    while start > 0 and place < 0:
        before = max(0, start - _BLOCK)
        lines.seek(before)
        place = lines.read(start - before).rfind(b"\n")
        start = before
    return start + place + 1 if place >= 0 else 0


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
