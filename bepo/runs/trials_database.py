"""The address of the database in which Optuna keeps the trials of a results folder."""

from __future__ import annotations

from pathlib import Path

from bepo.store.published import TRIALS


def database_url(folder: str | Path) -> str:
    """Return the URL of a folder's database. Characters that mean something in a URL, such as ``?``, are quoted."""
    from sqlalchemy import URL  # a run without trials starts without it

    return URL.create("sqlite", database=str(Path(folder) / TRIALS)).render_as_string()
