"""Table in-text: numbers that only the paper's prose has, reported beside reproduced."""

import re
from collections.abc import Callable
from math import nan

import numpy as np
import pandas as pd
import yaml

from analysis.data.efficiency import STAGES, cost_to
from analysis.data.methods import known_environments
from analysis.data.reported import entries_of
from analysis.data.rows import METHOD, OBSERVATIONS, settings
from analysis.data.runs import Run
from analysis.data.statistics import Estimate
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.grid import without_unused
from analysis.grid.notes import origins, protocol
from analysis.grid.parts import Metric
from analysis.grid.table import NOT_RUN, Entry, Table
from bepo.core.errors import unknown_choice
from bepo.core.places import PAPER

NUMBERS = PAPER / "in_text.yaml"
STUDIES = {
    "gated_gagpo": METHOD,
    "observation_aliasing": OBSERVATIONS,
    "main_webshop": METHOD,
    "main_alfworld": METHOD,
    "runtime": METHOD,
    "main_sokoban": METHOD,
    "backup_operator": settings("backup"),
}
_OTHER_STAGES = [stage for stage in STAGES if stage != "seconds/credit"]


def _other_stages(run: Run) -> pd.DataFrame:
    return run.metrics.filter(_OTHER_STAGES)


def _share(run: Run, *stages: str) -> float:
    """Return the share of some stages in the time of all, in per cent."""
    seconds = run.metrics.filter(["seconds/credit", *_OTHER_STAGES]).sum()
    return 100 * float(seconds[[f"seconds/{stage}" for stage in stages]].sum() / seconds.sum())


def _part(run: Run, metric: str, first: int, last: int, of: int = 100) -> float:
    """Return the mean of a metric from part ``first`` to part ``last`` of ``of`` equal parts of the updates."""
    rows = run.metrics[metric]
    return float(rows.iloc[len(rows) * first // of : max(len(rows) * last // of, 1)].mean())


def _updates_to(run: Run, success: float) -> float:
    """Return the update at which the mean training success of ten updates reaches ``success``, else the last update."""
    return cost_to(run, success)[0].updates


def _gain(run: Run) -> float:
    """Return by how many points training raised the success on the test tasks."""
    rows = run.episodes[run.episodes["split"] == "test"]
    first, last = (np.mean(rows["success"][chosen]) for chosen in (rows["update"] == 0, rows["final"]))
    return 100 * float(last - first)


def _validation(run: Run) -> float:
    """Return the final success on the validation tasks. Raises ``KeyError`` if the environment has none."""
    rows = run.episodes[run.episodes["final"] & (run.episodes["split"] == "validation")]
    if rows.empty:
        raise KeyError("validation")
    return 100 * float(np.mean(rows["success"]))


def _largest_change(run: Run, metric: str, first: int = 0) -> float:
    """Return the largest change between means of successive tenths of the updates, in per cent of the mean.

    ``first`` tenths are left out.
    """
    tenths = [part.mean() for part in np.array_split(run.metrics[metric].to_numpy(), 10)[first:] if len(part)]
    mean = float(np.mean(tenths))
    return 100 * float(np.abs(np.diff(tenths)).max(initial=0.0)) / mean if mean else nan


def _token_advantage(run: Run) -> float:
    """Return the absolute mean advantage of a token, in per cent of the deviation over transitions; nan if it is 0."""
    deviation = run.mean("credit/advantage_std")
    return 100 * float(np.mean(np.abs(run.metrics["credit/token_advantage_mean"]))) / deviation if deviation else nan


def _logged(value: Callable[[Run], float], form: str = ".1f") -> Metric:
    return Metric("", "", value=value, format=form)


METRICS = {
    "success": Metric("success", "success"),
    "score": Metric("score", "score", value="task_score"),
    "gain": _logged(_gain),
    "validation success": _logged(_validation),
    "training success": _logged(lambda run: 100 * run.mean("train/success")),
    "early training success": _logged(lambda run: 100 * _part(run, "train/success", 0, 2, 3)),
    "final training success": _logged(lambda run: 100 * float(run.metrics["train/success"].iloc[-10:].mean())),
    "updates to 50 %": _logged(lambda run: _updates_to(run, 0.5), ".0f"),
    "open transitions": _logged(lambda run: 100 * run.metrics["credit/gate_transition_coverage"].iloc[-1]),
    "open states": _logged(lambda run: 100 * run.metrics["credit/gate_state_coverage"].iloc[-1]),
    "branching transitions": _logged(lambda run: 100 * run.metrics["credit/branching_transitions"].iloc[-1]),
    "without advantage": _logged(lambda run: 100 * run.mean("credit/zero_advantage_transitions")),
    "credit seconds": _logged(lambda run: run.mean("seconds/credit"), ".3g"),
    "other seconds": _logged(lambda run: float(_other_stages(run).sum(axis=1).mean())),
    "credit share": _logged(lambda run: _share(run, "credit"), ".2g"),
    "rollout and update share": _logged(lambda run: _share(run, "rollout", "update")),
    "responses cut off": _logged(lambda run: 100 * _part(run, "train/response_clip_ratio", 0, 67)),
    "responses cut off late": _logged(lambda run: 100 * _part(run, "train/response_clip_ratio", 90, 100)),
    "advantage deviation change": _logged(lambda run: _largest_change(run, "credit/advantage_std", 1)),
    "token advantage": _logged(_token_advantage, ".2g"),
    "response length change": _logged(lambda run: _largest_change(run, "train/response_length")),
}


def _metric(name: str) -> Metric:
    """Return a metric by its name, or the mean of a logged metric over a part of the updates.

    ``train/entropy 0-10``: the first tenth of the updates. ``train/entropy 2/3``: the second third.
    """
    if part := re.fullmatch(r"(\S+) (\d+)/(\d+)", name):
        return _logged(lambda run: _part(run, part[1], int(part[2]) - 1, int(part[2]), int(part[3])), ".3g")
    if part := re.fullmatch(r"(\S+) (\d+)-(\d+)", name):
        return _logged(lambda run: _part(run, part[1], int(part[2]), int(part[3])), ".3g")
    return METRICS[name]


def _environment(number: dict[str, str]) -> str:
    """Return the environment in the number's column or group. Raises ``UserError`` if both lack one."""
    places = number["column"].split("/")[0], number["group"]
    if not (named := [env for env in places if env in known_environments()]):
        raise unknown_choice(f"environment of {number['text']}", " or ".join(places), known_environments())
    return named[0]


@artefact("in-text", "table", study=STUDIES)
def in_text(studies: Studies) -> Table:
    """Show the numbers of the text beside those of the runs."""
    of_paper = {entry.key: entry.value for entry in entries_of("text") if isinstance(entry.value, Estimate)}
    rows, entries = [], []
    for number in yaml.safe_load(NUMBERS.read_text(encoding="utf-8")):
        study, metric = studies[number["study"]], _metric(number["metric"])
        key = ("text", number["row"], number["group"], number["column"])
        entry = Entry(f"in-text/{number['text']}", key, of_paper.get(key))
        place = _environment(number), number.get("model", "small")
        entry.runs = [run for run in study.rows.get(number["runs"], []) if (run.env, run.model) == place]
        entry.episodes = metric.episodes
        entry.reproduced = metric.estimate(entry.runs, "evaluation")
        entry.missing = study.refused.get((*place, number["runs"]), NOT_RUN)
        reported, reproduced, gap = entry.printed(metric.format)
        reproduced = reproduced if entry.reproduced else entry.missing
        seeds = entry.reproduced.sample.seed_counts if entry.reproduced else None
        rows.append([number["text"], number.get("unit", "%"), reported, reproduced, gap, seeds])
        entries.append(entry)
    runs = list({run.id: run for entry in entries for run in entry.runs}.values())
    table = Table(
        "Numbers that only the paper's text has. A dash: the paper gives no number.",
        ["Quantity", "Unit", "Reported", f"Reproduced ({studies.tier})", "Gap", "Seeds"],
        rows,
        [
            " ".join(protocol(studies.values(), runs)),
            "Seeds: training × evaluation. ±: over training seeds, or with one training seed over evaluation seeds.",
            "GAGPO is a reconstruction. With the gate it equals Gated-BEPO with zero Bellman iterations.",
            *origins(runs),
        ],
        left=2,
        entries=entries,
    )
    return without_unused(table)
