"""Checks of the storage of Optuna trials, ``hydra.sweeper.storage``, with errors of one line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from optuna.exceptions import StorageInternalError
from sqlalchemy import make_url
from sqlalchemy.exc import SQLAlchemyError

from bepo.core.errors import UserError
from bepo.runs.trials_database import journal_file

_PACKAGES = {"psycopg2": "psycopg2-binary", "psycopg": "'psycopg[binary]'", "MySQLdb": "mysqlclient"}
"""The package of a database driver by its module, where they have different names."""


def checked_storage(storage: Any) -> str:
    """Return the URL of a database, or the place of a journal.

    Raises ``UserError`` if it is not one, is not persistent, or needs a driver that is not installed.
    """
    if not isinstance(storage, str):
        raise UserError(
            f"hydra.sweeper.storage={storage}: must be the URL of a database, such as sqlite:///FILE, or journal:///FILE"
        )
    if journal_file(storage):
        return storage
    with storage_errors(storage):
        url = make_url(storage)
        dialect = url.get_dialect()
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise UserError(f"hydra.sweeper.storage={storage}: must name a file, sqlite:///FILE; memory is not persistent")
    try:
        dialect.import_dbapi()
    except ImportError as error:
        module = error.name or url.get_driver_name()
        raise UserError(
            f"hydra.sweeper.storage={without_password(storage)}: needs the driver {module}; "
            f"to fix it: pip install {_PACKAGES.get(module, module)}"
        ) from None
    return storage


UNREACHABLE = (SQLAlchemyError, StorageInternalError, OSError)
"""What is raised while a study is used whose storage has become unreachable."""


@contextmanager
def storage_errors(storage: str) -> Iterator[None]:
    """Turn the errors of Optuna and its libraries about a storage into a ``UserError``."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # any type: Optuna's reader of a file that anybody may have written
        problem = (str(error) or repr(error)).splitlines()[0]
        raise UserError(f"hydra.sweeper.storage={without_password(storage)}: cannot be opened ({problem})") from error


def without_password(storage: str) -> str:
    """Return a storage as it may be printed."""
    with suppress(SQLAlchemyError, ValueError):
        return make_url(storage).render_as_string()
    return storage


def file_of(storage: str) -> Path | None:
    """Return the file of a journal or of an SQLite database; None for another database."""
    if journal := journal_file(storage):
        return journal
    url = make_url(storage)
    return Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None


def check_place(file: Path, storage: str, results: Path) -> None:
    """Raise ``UserError`` if a new file of trials cannot be created."""
    if not file.parent.is_dir():
        if not file.is_relative_to(results):
            absolute = "" if file.is_absolute() else " (an absolute path needs four slashes)" * ("://" in storage)
            raise UserError(f"hydra.sweeper.storage={storage}: folder {file.parent} does not exist{absolute}")
    elif file.is_symlink() or not os.access(file.parent, os.W_OK | os.X_OK):
        raise UserError(f"hydra.sweeper.storage={storage}: {file} cannot be written")
