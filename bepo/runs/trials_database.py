"""The URL of the Optuna database of a results folder."""

from __future__ import annotations

from pathlib import Path

from bepo.store.published import TRIALS


def database_url(folder: str | Path) -> str:
    """Return the URL of a folder's database, with special characters such as ``?`` quoted."""
    from sqlalchemy import URL  # imported late, because most runs do not need it

    return URL.create("sqlite", database=str(Path(folder) / TRIALS)).render_as_string()
