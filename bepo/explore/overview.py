"""The page of all runs: a table to filter and sort, and the test tasks that each run solves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bepo.explore.frames import unusual
from bepo.explore.groups import Plain
from bepo.explore.index import names_of, summary
from bepo.explore.page import render
from bepo.store.cells import study_cells
from bepo.store.find import each_readable, published_studies
from bepo.store.run_files import StoredRun

_POINTS = 40  # of a small curve


def overview(runs: Sequence[StoredRun], results: Path, every_page: bool = False) -> str:
    """Return the page of these runs. A run with a page in ``results/views``, or ``every_page``, has a link to it.

    Print runs whose rows cannot be read on standard error.
    """
    read = list(each_readable(runs, _results))
    runs, names = [run for run, _ in read], _names([run for run, _ in read])
    studies = _studies(results)
    rows, tasks, seen = [], {}, Counter[str]()
    for (run, (solved, curve)), name in zip(read, names):
        page = f"{run.id[:6]}.html"
        task_set = str(run.metadata.get("task_sets", {}).get("test", {}).get("digest", ""))
        if solved and task_set not in tasks:
            tasks[task_set] = [task for task, _ in solved]
        credit = run.config["credit"]["name"]
        row = summary(run, seen[credit]) | {"name": name, "study": ", ".join(studies.get(run.id, ()))}
        row["page"] = page if every_page or (results / "views" / page).exists() else None
        rows.append(row | {"curve": curve, "task_set": task_set, "solved": [rate for _, rate in solved]})
        del rows[-1]["settings"]
        seen[credit] += 1
    for row, words in zip(rows, _differences(runs)):
        row["differs"] = words
    return render("Runs", {"runs": rows, "tasks": tasks}, template="runs")


def _results(run: StoredRun) -> tuple[list[tuple[Plain, float]], list[list[float]]]:
    """Return the test tasks with the share of passes that solved them, and a curve of training success."""
    result = run.metadata.get("result", {})
    columns = {} if result.get("missing") else run.columns("episodes")  # without some, the others are a biased sample
    return _solved(columns, result.get("updates")), _curve(run.columns("metrics"))


def _names(runs: Sequence[StoredRun]) -> list[str]:
    """Return a short name of each run that is unique in its environment."""
    names = [""] * len(runs)
    for env in dict.fromkeys(run.config["env"]["name"] for run in runs):
        places = [number for number, run in enumerate(runs) if run.config["env"]["name"] == env]
        for number, name in zip(places, names_of([runs[number] for number in places])):
            names[number] = name
    return names


def _studies(results: Path) -> dict[str, list[str]]:
    """Return the studies of each run by run ID, for a results folder and the published runs."""
    studies: dict[str, dict[str, None]] = {}
    for path, run_id in study_cells(results):
        studies.setdefault(run_id, {})[path.parts[-3]] = None
    for study, run_id in published_studies():
        studies.setdefault(run_id, {})[study] = None
    return {run_id: list(names) for run_id, names in studies.items()}


def _differences(runs: Sequence[StoredRun]) -> list[str]:
    """Return the settings in which each run differs from most others of its environment, estimator, tier and model."""
    alike: dict[tuple[str, ...], list[int]] = {}
    for number, run in enumerate(runs):
        config = run.config
        kind = (config["env"]["name"], config["credit"]["name"], str(config.get("tier")), str(config.get("model")))
        alike.setdefault(kind, []).append(number)
    words = [""] * len(runs)
    for members in alike.values():
        for number, settings in unusual({str(n): runs[n].config for n in members}).items():
            words[int(number)] = " ".join(settings)
    return words


def _solved(columns: Mapping[str, Sequence[Any]], last: int | None) -> list[tuple[Plain, float]]:
    """Return each test task with the share of final passes that solved it, in the order of the tasks."""
    if not columns:
        return []
    kinds = columns.get("kind") or [""] * len(columns["task"])
    names = ("split", "update", "evaluation_seed", "task", "success")
    passes: dict[int, list[tuple[str, str, float]]] = {}
    for kind, split, update, seed, task, success in zip(kinds, *(columns[name] for name in names)):
        if split == "test" and update == last:
            passes.setdefault(seed, []).append((task, kind or "", success))
    of_task = zip(*passes.values())
    return [({"id": same[0][0], "kind": same[0][1]}, sum(row[2] for row in same) / len(same)) for same in of_task]


def _curve(columns: Mapping[str, Sequence[Any]]) -> list[list[float]]:
    """Return at most 40 points (update, mean training success since the previous point)."""
    successes = columns.get("train/success", ())
    values = [(update, y) for update, y in zip(columns.get("update", ()), successes) if y is not None]
    width = max(1, -(-len(values) // _POINTS))
    blocks = [values[i : i + width] for i in range(0, len(values), width)]
    return [[block[-1][0], round(sum(y for _, y in block) / len(block), 3)] for block in blocks]
