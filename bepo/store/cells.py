"""Cells of studies: files that point from each point of a sweep to its run, so that studies share runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from bepo.store.files import Corrupt, digest, read_bytes
from bepo.store.json_files import parse_object, unsealed, write_sealed

_FIELDS = {"overrides", "varying", "run_id"}


def read_cell(path: Path) -> dict[str, Any]:
    """Read a study's cell, ``{"run_id": ..., "overrides": [...]}``, without its digest. Raises ``Corrupt``.

    Older cells have no digest and are read without a check.
    """
    data = read_bytes(path, "study cell")
    cell = parse_object(data, path, "study cell")
    if not cell.keys() <= _FIELDS:
        cell = unsealed(data, path, "study cell")
    return checked_cell({"overrides": []} | cell, path)


def checked_cell(cell: Any, path: Path) -> dict[str, Any]:
    """Return a cell that was read from ``path``. Raises ``Corrupt`` if it does not name a run."""
    if (
        not isinstance(cell, dict)
        or not isinstance(cell.get("run_id"), str)
        or not re.fullmatch(r"\w[\w.-]{0,99}", cell["run_id"])
    ):
        raise Corrupt(f"{path}: not a study cell, it has no valid run_id")
    for name in ("overrides", "varying"):
        if not isinstance(words := cell.get(name, []), list) or not all(isinstance(word, str) for word in words):
            raise Corrupt(f"{path}: not a study cell, its {name} are not a list of texts")
    return cell


def note_cell(
    results: Path, study: str, tier: str, overrides: list[str], run_id: str, varying: Sequence[str] = ()
) -> None:
    """Point a cell of a study at a run. An older cell of the same overrides is overwritten.

    ``varying`` are the overrides by which the cell differs from the study's other cells, or the number of its Optuna
    trial. Without them the cell keeps its present ones.
    """
    name = digest("\n".join(sorted(overrides)), 12)
    path = results / "studies" / study / tier / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not varying and path.exists():
        with suppress(Corrupt):
            varying = read_cell(path).get("varying", [])
    content = {"overrides": sorted(overrides), "varying": list(varying), "run_id": run_id}
    write_sealed(path, content)


def study_cells(results: Path) -> Iterator[tuple[Path, str]]:
    """Yield the path of every readable cell of every study, and the ID of its run."""
    for path in sorted(results.glob("studies/*/*/*.json")):
        with suppress(Corrupt):
            yield path, read_cell(path)["run_id"]


def cells_of_run(results: Path, run_id: str) -> dict[str, dict[str, Any]]:
    """Return the cells that point at a run, by study. If a study has several, return the last by file name."""
    return {path.parts[-3]: read_cell(path) for path, run in study_cells(results) if run == run_id}


def files_of_run(results: Path, run_id: str) -> Iterator[Path]:
    """Yield the files of a complete run: those listed in ``run.json``, itself, and the cells that point at the run."""
    folder = results / "runs" / run_id
    files = json.loads((folder / "run.json").read_text(encoding="utf-8"))["files"]
    yield from (folder / name for name in sorted(files))
    yield folder / "run.json"
    yield from (path for path, run in study_cells(results) if run == run_id)
