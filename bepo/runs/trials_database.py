"""Where Optuna trials are stored: the database of a results folder, or a journal for shared file systems."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bepo.store.published import TRIALS

if TYPE_CHECKING:
    from optuna.storages import JournalStorage

JOURNALS = "*.journal"
"""The pattern of Optuna's journals in a results folder."""
_SCHEME = "journal:///"
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
    """Return what Optuna takes as the storage of a study: the URL of a database, or an open journal.

    A journal needs no working locks of the file system: its lock is a symbolic link.
    """
    if (file := journal_file(storage)) is None:
        return storage
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    return JournalStorage(JournalFileBackend(str(file)))
