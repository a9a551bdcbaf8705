"""The ledger: one row for each run of any status. Also deletes named runs.

``python -m analysis runs [FIELD=VALUE ...]``, ``python -m analysis runs delete RUN_ID ...``
"""

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.data.runs import changed_since, flat, grouped
from bepo.core.errors import UserError, unknown_choice
from bepo.core.printed_tables import show_table
from bepo.explore.columns import PublishedColumns
from bepo.explore.frames import unusual
from bepo.runs.config import TIERS
from bepo.store.cells import study_cells
from bepo.store.files import Corrupt
from bepo.store.published import PublishedRuns
from bepo.store.run_files import read_config, success_of
from bepo.store.runs import RunFolder

COLUMNS = ("run", "status", "tier", "study", "env", "credit", "model", "seed", "success", "wall", "commit", "began")
COLUMNS += ("alarms", "differs")
_CHOICES = {"status": ("complete", "partial", "corrupt", "empty", "missing", "published"), "tier": TIERS}
_BEGINNINGS = ("status", "commit", "began")
_BY_IMPORTANCE = ("run", "status", "env", "credit", "seed", "success", "began", "study", "tier", "differs", "alarms")
_BY_IMPORTANCE += ("wall", "commit", "model")
_PUBLISHED = ("published", "missing (a published")
_MINUTE = len("2026-11-28 00:31")
NEWEST = 20
"""Number of runs that are shown without ``--all``."""
_FEW = 30  # a field with at most so many values is listed if no run matches


def ledger(results: Path, published: Iterable[PublishedRuns] = ()) -> pd.DataFrame:
    """Return every run of the folder, and published runs that are not complete there, the oldest first.

    A published run is outdated if a method version has changed since. ``differs``: the settings in which a run differs
    from most others of its environment, estimator, model and tier. ``commit`` ends with ``+`` if there were uncommitted
    changes. ``alarms``: how many health checks raise one (``bepo diagnose``). ``wall`` ends with ``+`` if it counts
    only the last of several sessions.
    """
    studies = _joined((path.parts[-3], run) for path, run in study_cells(results))
    folders = [path for path in sorted((results / "runs").glob("*")) if path.is_dir()]
    configs: dict[str, dict[str, Any]] = {}
    rows = {path.name: _row(path, studies.get(path.name, ""), configs) for path in folders}
    for runs in published:
        for row in _published_rows(runs, configs):
            if rows.get(row["run"], {}).get("status") != "complete":
                rows[row["run"]] = row
    table = pd.DataFrame(list(rows.values()), columns=list(COLUMNS))
    differs = _differences(table, configs)
    table["differs"] = [differs.get(run, "") for run in table["run"]]
    return table.sort_values(["began", "run"], ignore_index=True)


def _joined(studies: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the studies of each run, separated by commas, from pairs of a study and a run ID."""
    by_run = grouped(studies, lambda pair: pair[1])
    return {run: ",".join(dict.fromkeys(study for study, _ in same)) for run, same in by_run.items()}


def check_filters(filters: Sequence[str]) -> None:
    """Raise ``UserError`` for an unknown field, and for a status or a tier that does not exist."""
    for text in filters:
        name, sign, values = text.partition("=")
        if not sign or name not in COLUMNS:
            raise unknown_choice("filter", text, [f"{column}=..." for column in COLUMNS])
        for value in values.split(",") if name in _CHOICES else ():
            if not any(choice.startswith(value) for choice in _CHOICES[name]) or not value:
                raise unknown_choice(name, value, _CHOICES[name])


def filtered(table: pd.DataFrame, filters: Sequence[str]) -> pd.DataFrame:
    """Return the rows that match every ``field=value``, or one of several values separated by commas.

    ``study`` matches any study of a run. ``status``, ``commit`` and ``began`` match by prefix.
    """
    for text in filters:
        name, _, values = text.partition("=")
        texts, wanted = table[name].map(str), values.split(",")
        if name == "study":
            met = ~texts.str.split(",").map(set(wanted).isdisjoint).astype(bool)
        else:
            met = texts.str.startswith(tuple(wanted)) if name in _BEGINNINGS else texts.isin(wanted)
        table = table.loc[met, :]
    return table


def values_instead(table: pd.DataFrame, filters: Sequence[str]) -> str:
    """Return a message for filters that match no run. It lists the values of fields that have few."""
    lines = [f"none of {len(table)} runs has {' '.join(filters)}"]
    for name in dict.fromkeys(text.partition("=")[0] for text in filters):
        values = table[name].map(str).str.split(",").explode() if name == "study" else table[name].map(str)
        choices = sorted({value.partition(" ")[0] if name in _BEGINNINGS else value for value in values} - {""})
        if len(choices) <= _FEW:
            lines.append(f"  {name}: {', '.join(choices)}")
    return "\n".join(lines)


def newest(table: pd.DataFrame, number: int | None = NEWEST) -> pd.DataFrame:
    """Return the newest runs (all for None): those of the results folder first, then published ones.

    Both are sorted by when they began, the newest first.
    """
    local = ~table["status"].str.startswith(_PUBLISHED)
    ordered = table.assign(local=local).sort_values(["local", "began", "run"], ascending=False, ignore_index=True)
    return ordered.drop(columns="local").head(len(table) if number is None else number)


def show(table: pd.DataFrame, number: int | None = NEWEST) -> str:
    """Print the newest runs of a ledger, and return a line with the number of runs of each status.

    Columns without a value are left out, and those that do not fit the terminal.
    """
    if table.empty:
        return "no runs"
    counts = table["status"].map(lambda s: s.split()[0]).value_counts()
    studies = table["study"].map(lambda s: ",".join(s.split(",")[:2]) + (",..." if s.count(",") > 1 else ""))
    shown = newest(table.assign(study=studies, began=table["began"].str.slice(0, _MINUTE)), number)
    texts = pd.DataFrame({name: shown[name].map(_text) for name in COLUMNS}, dtype=object)
    filled = [name for name in COLUMNS if any(texts[name])]
    narrow = show_table(filled, texts[filled].to_numpy().tolist(), [name for name in _BY_IMPORTANCE if name in filled])
    words = [f"{len(table)} runs: {', '.join(f'{n} {status}' for status, n in counts.items())}"]
    words += [f"the newest {len(shown)} are shown, yours first; --all shows all"] * (len(shown) < len(table))
    if "differs" in filled and "differs" not in narrow:
        words.append("differs: settings that most runs of the same tier, environment, method and model have otherwise")
    words += [f"too narrow for {', '.join(narrow)}"] * bool(narrow)
    return "\n".join(words)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "" if pd.isna(value) else f"{value:.3f}"
    return "" if value is None else str(value)


def delete(results: Path, identifiers: Sequence[str]) -> None:
    """Delete the folders of these runs and the study cells that point there; the cells are missing again.

    Raises ``UserError`` for an unknown ID, for a run that is being written, and without IDs. Then nothing is deleted.
    """
    if not identifiers:
        raise UserError("runs delete: name at least one run ID")
    known = {path.name for path in (results / "runs").glob("*") if path.is_dir()}
    for identifier in identifiers:
        if identifier not in known:
            raise UserError(f"runs delete {identifier}: no such run in {results / 'runs'}; nothing was deleted")
    with ExitStack() as locks:
        for folder in [locks.enter_context(RunFolder(results, name).locked()) for name in dict.fromkeys(identifiers)]:
            shutil.rmtree(folder.path)
    for path, run in study_cells(results):
        if run in identifiers:
            path.unlink()


def _differences(table: pd.DataFrame, configs: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return for each run the settings in which it differs from most runs with an otherwise equal row."""
    by_run = {}
    for _, alike in table.groupby(["tier", "env", "credit", "model"], dropna=False):
        settings = unusual({run: configs[run] for run in alike["run"] if run in configs})
        by_run |= {run: " ".join(words) for run, words in settings.items()}
    return by_run


def _published_rows(runs: PublishedRuns, configs: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the row of each published run, and add its config to ``configs`` if it can be read."""
    studies, stored = _joined(runs.runs_of_studies()), PublishedColumns(runs)
    for run_id in sorted({*runs.ids(), *studies}):
        status = "corrupt" if runs.archive(run_id).exists() else "missing (a published cell names it)"
        config, metadata = {"tier": runs.tier}, {}
        with suppress(Corrupt):
            run = stored.run(run_id)
            config, metadata = run.config, run.metadata
            status = "published (outdated)" if _is_outdated(metadata) else "published"
            configs[run_id] = config
        yield _described(run_id, status, studies.get(run_id, ""), config, metadata)


def _is_outdated(metadata: dict[str, Any]) -> bool:
    identity = metadata.get("identity", {})
    return "method_versions" in identity and bool(changed_since(identity))


def _row(path: Path, studies: str, configs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the row of a run, and add its config to ``configs`` if it can be read."""
    folder = RunFolder(path.parent.parent, path.name)
    status, config, metadata = _status(folder)
    if config:
        configs[path.name] = config
    if not isinstance(metadata.get("sessions"), list):
        with suppress(Corrupt):
            metadata = metadata | {"sessions": folder.sessions()}
    return _described(path.name, status, studies, config, metadata)


def _described(
    run_id: str, status: str, studies: str, config: dict[str, Any], metadata: dict[str, Any]
) -> dict[str, Any]:
    """Return the row of a run from its config and metadata, as far as they can be read."""
    known = metadata.get("sessions")
    sessions = [s for s in known if isinstance(s, dict)] if isinstance(known, list) else []
    wall, settings = metadata.get("wall_seconds_last_session"), flat(config)
    settings.setdefault("model", "small" if "seed" in settings else "")  # older runs do not say
    success = success_of(metadata["result"]) if isinstance(metadata.get("result"), dict) else None
    row = {"run": run_id, "status": status, "study": studies, "success": success}
    # An empty text, because None would convert the seeds of all runs to floats.
    row |= {column: settings.get(column, "") for column in ("tier", "model", "seed")}
    row |= {column: settings.get(f"{column}.name", "") for column in ("env", "credit")}
    raised = metadata.get("alarms")
    row["alarms"] = str(len(raised)) if isinstance(raised, list) and raised else ""
    row["wall"] = f"{wall:.0f} s" + "+" * (len(sessions) > 1) if isinstance(wall, int | float) else ""
    commits = list(dict.fromkeys(str(s.get("commit"))[:7] for s in sessions))
    row["commit"] = "".join(commits[-1:]) + "+" * any(s.get("dirty") for s in sessions)
    row["commit"] += f" ({len(commits)})" * (len(commits) > 1)
    return row | {"began": str(sessions[0].get("started", "")) if sessions else ""}


def _status(folder: RunFolder) -> tuple[str, dict, dict]:
    """Return status, config and metadata, as far as they can be read."""
    if not (folder.path / "config.json").exists():
        return "empty", {}, {}  # killed at once, or not a run
    config: dict = {}
    try:
        progress = folder.progress(hashed=False)
        config = progress.run.config if progress.run else read_config(folder.path)
        metadata = progress.run.metadata if progress.run else {}
        if not progress.run:
            folder.sessions()
    except Corrupt:
        return "corrupt", config, {}
    count = f" {progress.updates}/{config.get('updates', '?')}" if progress.status == "partial" else ""
    return progress.status + count, config, metadata
