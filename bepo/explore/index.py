"""The page of runs: their settings, curves, success by task type, diagnosis, and the list of episodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bepo.core.errors import UserError
from bepo.explore import diagnosis
from bepo.explore.colours import page_colour
from bepo.explore.compare import first_difference, pairs
from bepo.explore.episodes import TEST, episodes
from bepo.explore.frames import differing, flat, question_of, read_rollouts, unusual
from bepo.explore.groups import Plain
from bepo.explore.methods import methods
from bepo.explore.names import label_of
from bepo.explore.page import render
from bepo.explore.task_types import types, whole_episodes
from bepo.runs.health import alarms_of
from bepo.store.find import each_readable
from bepo.store.run_files import StoredRun, success_of

_NOT_SHOWN = ("update", "cpu/", "time/")


def page(runs: Sequence[StoredRun], compared: tuple[int, int] | None = None, study: str = "") -> str:
    """Return the page of these runs.

    ``compared``: indices of two runs whose episodes are paired. ``study``: the study that the runs are of; the page's
    title has its question. Of several runs, those that cannot be read are printed on standard error and left out.
    """
    if len(runs) > 1 and not compared:
        runs = [run for run, _ in each_readable(runs, _whole)]
    listed, chunks, notes, alarms = [], [], [], []
    for number, run in enumerate(runs):
        counts: dict[str, int] = {}
        for group in episodes(run):
            for member, row in enumerate(group.summaries):
                n = counts[group.source] = counts.get(group.source, -1) + 1
                place = {"run": number, "source": group.source, "chunk": len(chunks), "member": member, "number": n}
                listed.append(place | row)
            chunks.append(group.content)
        alarms += [{"run": run.id, "text": alarm} for alarm in alarms_of(run)]
        if not counts:
            notes.append(f"Run {run.id} has no rollouts and no transcripts{_why(run)}: its episodes cannot be shown.")
    configs = {str(number): run.config for number, run in enumerate(runs)}
    different = differing(configs)
    fields = list(next(iter(different.values())))
    credits = [run.config["credit"]["name"] for run in runs]
    index: Plain = {
        "runs": [
            summary(run, credits[:n].count(credits[n])) | {"name": name}
            for n, (run, name) in enumerate(zip(runs, names_of(runs)))
        ],
        "methods": methods(runs),
        "alarms": alarms,
        "notes": notes,
        "curves": curves([run.metrics() for run in runs]),
        "types": [row for number, run in enumerate(runs) for row in types(number, whole_episodes(run))],
        "differences": {"fields": fields, "values": [[_text(d[f]) for d in different.values()] for f in fields]},
        "episodes": listed,
    }
    if len(runs) == 1:
        index["diagnosis"] = diagnosed(runs[0])
    elif index["curves"]:  # not of evaluations alone
        by_method = {method["name"]: [runs[n] for n in method["runs"]] for method in index["methods"]}
        index["diagnosis"] = diagnosed_methods(by_method)
    if compared:
        index["compare"] = _compared(runs, compared, listed)
    return render(_title(runs, index["runs"], study), index, chunks)


def _whole(run: StoredRun) -> object:
    """Read everything that a page shows of a run."""
    return run.metrics(), run.episodes(), run.transcripts(), [read_rollouts(run, update) for update in run.rollouts()]


def _title(runs: Sequence[StoredRun], summaries: Sequence[Plain], study: str) -> str:
    """Return the study and its question; without a study, estimators and environments."""
    if study:
        return ": ".join(filter(None, [study, question_of(study, (run.config for run in runs))]))
    titles = list(dict.fromkeys(f"{run['label']} on {run['env']}" for run in summaries))
    return ", ".join(titles[:3]) + " and others" * (len(titles) > 3)


def _why(run: StoredRun) -> str:
    if run.path.suffix == ".zip":
        return ", like most published archives"
    return " yet" if not run.metadata else ""


def summary(run: StoredRun, twin: int) -> Plain:
    """Return the summary of a run for the page. ``twin``: the number of runs of its estimator that are listed above."""
    config, result = run.config, run.metadata.get("result", {})
    name = config["credit"]["name"]
    done = result["updates"] if "updates" in result else len(run.metrics())
    return {
        "id": run.id,
        "label": label_of(config["credit"]),
        "colour": page_colour(name),
        "twin": twin,
        "env": config["env"]["name"],
        "tier": config.get("tier", ""),
        "seed": config["seed"],
        "status": f"{done} of {config.get('updates', '?')}",
        "success": success_of(result),
        "settings": [[field, _text(value)] for field, value in sorted(flat(config))],
    }


def names_of(runs: Sequence[StoredRun]) -> list[str]:
    """Return a short unique name for each run: estimator, environment, seed, and what differs or the run ID."""
    several = len({run.config["env"]["name"] for run in runs}) > 1
    names = []
    for run in runs:
        env = f" {run.config['env']['name']}" * several
        names.append(f"{label_of(run.config['credit'])}{env} seed {run.config['seed']}")
    alike: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        alike.setdefault(name, []).append(number)
    for name, members in alike.items():
        for n, words in unusual({str(n): runs[n].config for n in members}).items():
            names[int(n)] = " ".join([name, *words[:2]])
    return [f"{name} {run.id}" if names.count(name) > 1 else name for name, run in zip(names, runs)]


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def curves(metrics: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, list[Plain]]:
    """Return the points (update, value) of each run by metric. Times are left out."""
    lines: dict[str, dict[int, list[list[float]]]] = {}
    for run, rows in enumerate(metrics):
        for row in rows:
            for name, value in row.items():
                if name.startswith(_NOT_SHOWN) or not isinstance(value, int | float) or not math.isfinite(value):
                    continue
                lines.setdefault(name, {}).setdefault(run, []).append([row["update"], float(f"{value:.4g}")])
    return {name: [{"run": run, "points": points} for run, points in lines[name].items()] for name in sorted(lines)}


def _compared(runs: Sequence[StoredRun], compared: tuple[int, int], listed: Sequence[Plain]) -> Plain:
    a, b = compared
    rows = [runs[n].transcripts() for n in compared]
    place = {(row["run"], row["number"]): n for n, row in enumerate(listed) if row["source"] == TEST}
    shared = [
        {
            "task": rows[0][i]["task"],
            "kind": rows[0][i]["kind"],
            "a": place[a, i],
            "b": place[b, j],
            "first": first_difference(rows[0][i], rows[1][j]),
        }
        for i, j in pairs(*rows)
    ]
    return {"a": a, "b": b, "pairs": shared, "why": "" if shared else why_no_pairs(runs[a], runs[b])}


def why_no_pairs(a: StoredRun, b: StoredRun) -> str:
    """Return why two runs have no pair of test episodes."""
    lacking = [run.id for run in (a, b) if not run.transcripts()]
    if lacking:
        return f"Run {' and run '.join(lacking)} has no transcripts, so no episodes can be paired."
    return f"Runs {a.id} and {b.id} have no test task in common."


def check_comparable(a: StoredRun, b: StoredRun) -> None:
    """Raise ``UserError`` if two runs have no pair of test episodes."""
    if not pairs(a.transcripts(), b.transcripts()):
        raise UserError(f"--compare {a.id} {b.id}: {why_no_pairs(a, b)}")


def diagnosed(run: StoredRun) -> Plain:
    """Return the tables of ``bepo.explore.diagnosis`` of a run, and histograms of the newest stored rollouts.

    ``why`` says why histograms are missing, if they are.
    """
    tables: Plain = {
        "signals": _table("metric", diagnosis.signals(run)),
        "seconds": _table("stage", diagnosis.cost(run)),
    }
    try:
        update, terms = diagnosis.newest_terms(run)
    except UserError as problem:
        return tables | {"histograms": [], "why": str(problem).rstrip(".") + "."}
    calibrated = diagnosis.calibration(terms)
    return tables | {
        "update": update,
        "zero": float(np.mean(terms["advantage"].to_numpy() == 0)),
        "histograms": [
            {"name": name, "counts": counts.tolist(), "low": float(edges[0]), "high": float(edges[-1])}
            for name, (counts, edges) in diagnosis.histograms(terms).items()
        ],
        "calibration": None if calibrated is None else _table("bin of the value", calibrated),
    }


def diagnosed_methods(by_method: Mapping[str, Sequence[StoredRun]]) -> Plain:
    """Return the metrics of the last fifth of the updates, a row for each method."""
    return {"late": _table("method", diagnosis.late_signals(by_method))}


def _table(first: str, table: pd.DataFrame) -> Plain:
    """Return heads and rows; numbers that are not finite become None."""
    rows = [[str(name), *(float(x) if math.isfinite(x) else None for x in row)] for name, *row in table.itertuples()]
    return {"heads": [first, *map(str, table.columns)], "rows": rows}
