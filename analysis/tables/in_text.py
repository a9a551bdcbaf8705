"""Table in-text: the numbers that stand in the paper's prose only, reported beside reproduced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite

import numpy as np
import pandas as pd

from analysis.artefact import NOT_RUN, Cell, Table, artefact
from analysis.notes import protocol, sources
from analysis.parts import Metric
from analysis.reported import reported
from analysis.runs import METHOD, Key, Run, Study
from analysis.stats import Estimate, Sample, estimate

LABEL = "in-text"
ALIASING = Key(lambda run: f"{run.method} {run['env.graph_key']}", ("env.graph_key", "env.prompt_state"))
STUDIES = {
    "gated_gagpo": METHOD,
    "observation_aliasing": ALIASING,
    "main_webshop": METHOD,
    "main_alfworld": METHOD,
    "runtime": METHOD,
}
_SUCCESS, _SCORE = Metric("success", "success"), Metric("score", "score", value="score")
_STAGES = ("time/rollout", "time/old_logprob", "time/reference", "time/values", "time/update")


@dataclass(frozen=True)
class Logged:
    """A number of each run's metric rows: ``read`` takes them all. None where a run did not log it."""

    read: Callable[[pd.DataFrame], float]

    def sample(self, runs: list[Run]) -> Sample | None:
        try:
            found = {r.seed: float(self.read(r.metrics)) for r in runs}
        except KeyError:
            return None
        if not found or not all(map(isfinite, found.values())):
            return None
        return Sample(tuple(found), tuple(np.array([[v]]) for v in found.values()), None)


def _last(name: str) -> Logged:
    return Logged(lambda rows: 100 * rows[name].iloc[-1])


_CURVE = Logged(lambda rows: 100 * rows["train/success"].mean())
_CREDIT = Logged(lambda rows: rows["time/credit"].mean())
_OTHERS = Logged(lambda rows: rows[[s for s in _STAGES if s in rows]].sum(axis=1).mean())
_SHARE = Logged(
    lambda rows: 100 * rows["time/credit"].sum() / rows[["time/credit", *(s for s in _STAGES if s in rows)]].sum().sum()
)


# Of what is not a rate of some tens of per cent.
_FORMATS = {
    ("advantage_stage", "seconds"): ".3g",
    ("advantage_stage", "share"): ".2g",
}


@dataclass(frozen=True)
class Number:
    """One number: its key in ``text.csv``, what it is, and the runs it comes from."""

    row: str
    group: str
    column: str
    words: str
    study: str
    runs: str
    """Row of the study."""
    metric: Metric | Logged
    model: str = "small"
    unit: str = "%"

    @property
    def key(self) -> tuple[str, str, str, str]:
        return "text", self.row, self.group, self.column


def _gated(row: str, runs: str) -> list[Number]:
    words = f"GAGPO {row}, WebShop"
    return [
        Number("gagpo", row, "webshop/success", f"{words} success", "gated_gagpo", runs, _SUCCESS),
        Number("gagpo", row, "webshop/score", f"{words} task score", "gated_gagpo", runs, _SCORE),
    ]


def _aliasing(method: str, name: str, protocol: str) -> Number:
    words = f"{name}, ALFWorld success, {protocol} observations"
    runs = f"{method} {protocol}"
    return Number(method, protocol, "alfworld/All", words, "observation_aliasing", runs, _SUCCESS)


def _coverage(env: str, name: str) -> list[Number]:
    return [
        Number(
            "gate_coverage",
            env,
            part + "s",
            f"Gate open at the last update, {name} {part}s",
            f"main_{env}",
            "gated_bepo",
            _last(f"credit/gate_{part}_coverage"),
        )
        for part in ("record", "state")
    ]


def _curve(method: str, name: str, size: str, model: str) -> Number:
    words = f"{name} {size}, ALFWorld training success, mean over updates"
    return Number(method, f"training curve {size}", "alfworld/All", words, "main_alfworld", method, _CURVE, model)


def _time(row: str, column: str, words: str, metric: Logged, unit: str) -> Number:
    return Number(row, "alfworld", column, words, "runtime", "gated_bepo", metric, unit=unit)


NUMBERS = (
    *_gated("ungated", "gagpo"),
    *_gated("gated", "gated_bepo"),
    _aliasing("graphgpo", "GraphGPO", "augmented"),
    _aliasing("gated_bepo", "Gated-BEPO", "augmented"),
    _aliasing("graphgpo", "GraphGPO", "raw"),
    _aliasing("gated_bepo", "Gated-BEPO", "raw"),
    *_coverage("webshop", "WebShop"),
    *_coverage("alfworld", "ALFWorld"),
    *(
        _curve(m, n, "1.5B", "small")
        for m, n in (("gated_bepo", "Gated-BEPO"), ("hgpo", "HGPO"), ("gigpo", "GiGPO"), ("grpo", "GRPO"))
    ),
    *(_curve(m, n, "7B", "large") for m, n in (("gated_bepo", "Gated-BEPO"), ("hgpo", "HGPO"))),
    _time("advantage_stage", "seconds", "Advantage stage of an ALFWorld update", _CREDIT, "s"),
    _time("other_stages", "seconds", "Other stages of an ALFWorld update", _OTHERS, "s"),
    _time("advantage_stage", "share", "Advantage stage, share of an ALFWorld update", _SHARE, "%"),
)


@artefact(LABEL, "table", study=STUDIES)
def in_text(studies: Mapping[str, Study]) -> Table:
    published = {("text", r.row, r.group, r.column): r for r in reported("text")}
    scale = next(iter(studies.values())).scale
    table = Table(
        "Numbers that stand in the paper's text only. A dash: the paper gives none.",
        ["Quantity", "Unit", "Reported", f"Reproduced ({scale})", "Gap", "Seeds"],
        [],
        left=2,
    )
    for number in NUMBERS:
        form = _FORMATS.get((number.row, number.column), ".1f")
        cell = _cell(number, studies[number.study])
        printed = published.get(number.key)
        cell.reported = printed.value if printed else None
        table.formats |= {(len(table.rows), j): form for j, form in enumerate((form, form, "+" + form), start=2)}
        gap = None if cell.gap is None else Estimate(cell.gap)
        seeds = cell.sample.seed_counts if cell.sample else None
        table.rows.append([number.words, number.unit, cell.reported, cell.found or cell.missing, gap, seeds])
        table.cells.append(cell)
    runs = list({r.id: r for c in table.cells for r in c.runs}.values())
    table.notes = [
        " ".join(protocol(list(studies.values()), runs)),
        "Seeds: training × evaluation. ±: over training seeds, or, of one training seed, over evaluation seeds.",
        "GAGPO is a reconstruction; with the gate it equals Gated-BEPO at zero Bellman iterations.",
        *sources(runs),
    ]
    return table


def _cell(number: Number, study: Study) -> Cell:
    cell = Cell(f"{LABEL}/{number.words}", number.key, missing=NOT_RUN)
    cell.runs = [r for r in study.rows.get(number.runs, []) if r.model == number.model]
    cell.sample = number.metric.sample(cell.runs)
    cell.found = estimate(cell.sample, "evaluation") if cell.sample else None
    refused = [reason for (_, _, row), reason in study.refused.items() if row == number.runs]
    cell.missing = refused[0] if refused else NOT_RUN
    return cell
