"""The ledger: a row a run, of any status, and the removal of runs that are named.

``python -m analysis runs [FIELD=VALUE ...] [--gc RUN_ID ...]``
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from bepo import record
from bepo.errors import UserError, choose

COLUMNS = ("run", "status", "tier", "study", "env", "credit", "model", "seed", "success", "wall", "commit", "began")


def ledger(results: Path) -> pd.DataFrame:
    """Every run of the folder, the oldest first. ``commit`` ends with ``+`` where the tree was dirty in some session,
    ``wall`` with ``+`` where only the last of several sessions is in it."""
    studies = _studies(results)
    rows = [_row(path, studies.get(path.name, [])) for path in sorted((results / "runs").glob("*")) if path.is_dir()]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.sort_values(["began", "run"], ignore_index=True)


def chosen(table: pd.DataFrame, filters: Sequence[str]) -> pd.DataFrame:
    """The rows that have every ``field=value``; of several values, separated by commas, any. A study is one of a run's
    studies; a status, commit or date may be its beginning."""
    for text in filters:
        name, sign, values = text.partition("=")
        if not sign or name not in COLUMNS:
            raise choose("filter", text, [f"{c}=..." for c in COLUMNS])
        table = table[[_matches(name, found, values.split(",")) for found in table[name]]]
    return table


def shown(table: pd.DataFrame) -> str:
    """As text, with what it counts below."""
    counts = table["status"].map(lambda s: s.split()[0]).value_counts()
    total = ", ".join(f"{n} {status}" for status, n in counts.items())
    studies = table["study"].map(lambda s: ",".join(s.split(",")[:2]) + (",..." if s.count(",") > 1 else ""))
    text = (
        table.assign(study=studies).to_string(index=False, na_rep="-", float_format="{:.3f}".format) + "\n"
        if len(table)
        else ""
    )
    return f"{text}{len(table)} runs: {total}" if total else "no runs"


def remove(results: Path, identifiers: Sequence[str]) -> None:
    """Delete the folders of these runs and the study cells that point there, which are missing again.

    Raises ``UserError``, before anything is deleted, for an id that is none, or whose run is being written.
    """
    known = {path.name for path in (results / "runs").glob("*") if path.is_dir()}
    for identifier in identifiers:
        if identifier not in known:
            raise UserError(f"--gc {identifier}: no run of {results / 'runs'}; nothing was removed")
    for identifier in identifiers:
        with record.RunFolder(results, identifier).locked():
            pass
    for identifier in identifiers:
        with record.RunFolder(results, identifier).locked() as folder:
            shutil.rmtree(folder.path)
    for path, run in record.cells(results):
        if run in identifiers:
            path.unlink()


def _row(path: Path, studies: list[str]) -> dict[str, object]:
    folder = record.RunFolder(path.parent.parent, path.name)
    status, config, facts = _status(folder)
    sessions = [s for s in folder.sessions() if isinstance(s, dict)]
    wall = facts.get("wall_seconds_last_session")
    return {
        "run": path.name,
        "status": status,
        "tier": config.get("scale"),
        "study": ",".join(studies),
        "env": _within(config, "env", "name"),
        "credit": _within(config, "credit", "name"),
        "model": config.get("model", "small"),
        "seed": config.get("seed"),
        "success": _within(facts, "result", "success"),
        "wall": "" if wall is None else f"{wall:.0f} s" + ("+" if len(sessions) > 1 else ""),
        "commit": _commit(sessions),
        "began": sessions[0].get("started", "") if sessions else "",
    }


def _status(folder: record.RunFolder) -> tuple[str, dict, dict]:
    """With the config and the facts, as far as they can be read."""
    if not (folder.path / "config.json").exists():
        return "empty", {}, {}  # begun and killed at once, or no run at all
    config: dict = {}
    try:
        config = record.read_config(folder.path)
        state = folder.progress()
        facts = record.read(folder.path).facts if state.status == "complete" else {}
    except record.CorruptRecord:
        return "corrupt", config, {}
    partial = f"partial {state.updates}/{config.get('updates', '?')}"
    return partial if state.status == "partial" else state.status, config, facts


def _within(tree: dict, part: str, name: str) -> object:
    return tree[part].get(name) if isinstance(tree.get(part), dict) else None


def _commit(sessions: list[dict]) -> str:
    """The newest session's, short; several are counted."""
    commits = list(dict.fromkeys(str(s.get("commit"))[:7] for s in sessions))
    if not commits:
        return ""
    dirty = "+" if any(s.get("dirty") for s in sessions) else ""
    return commits[-1] + dirty + (f" ({len(commits)})" if len(commits) > 1 else "")


def _studies(results: Path) -> dict[str, list[str]]:
    """Studies whose cells point at each run."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, run in record.cells(results):
        if path.parts[-3] not in found[run]:
            found[run].append(path.parts[-3])
    return found


def _matches(name: str, found: object, values: list[str]) -> bool:
    if name == "study":
        return any(v in str(found).split(",") for v in values)
    if name in ("status", "commit", "began"):
        return any(str(found).startswith(v) for v in values)
    return str(found) in values
