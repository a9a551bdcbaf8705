"""Table in-text: the numbers that stand in the paper's prose only, reported beside reproduced."""

from dataclasses import dataclass

import pandas as pd

from analysis.data.published import published
from analysis.data.runs import METHOD, OBSERVATIONS, Studies, StudyRuns
from analysis.data.statistics import estimate
from analysis.grid.artefact import artefact
from analysis.grid.notes import origins, protocol
from analysis.grid.parts import Metric
from analysis.grid.table import NOT_RUN, Entry, Printed, Table

STUDIES = {"gated_gagpo": METHOD, "observation_aliasing": OBSERVATIONS, "main_webshop": METHOD, "main_alfworld": METHOD}
STUDIES |= {"runtime": METHOD}
_OTHER_STAGES = ("time/rollout", "time/old_logprob", "time/reference", "time/values", "time/update")


def _other_stages(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[[stage for stage in _OTHER_STAGES if stage in rows]]


def _share(rows: pd.DataFrame) -> float:
    credit = rows["time/credit"].sum()
    return 100 * credit / (credit + _other_stages(rows).sum().sum())


SUCCESS = Metric("success", "success")
SCORE = Metric("score", "score", value="task_score")
CURVE = Metric("curve", "", value=lambda rows: 100 * rows["train/success"].mean())
TRANSITIONS = Metric("records", "", value=lambda rows: 100 * rows["credit/gate_transition_coverage"].iloc[-1])
STATES = Metric("states", "", value=lambda rows: 100 * rows["credit/gate_state_coverage"].iloc[-1])
CREDIT = Metric("credit", "", value=lambda rows: rows["time/credit"].mean(), format=".3g")
OTHERS = Metric("others", "", value=lambda rows: _other_stages(rows).sum(axis=1).mean(), format=".1f")
SHARE = Metric("share", "", value=_share, format=".2g")


@dataclass(frozen=True)
class Number:
    """One number: row, group and column in ``text.csv``, what it is, and the study's row that it comes from."""

    row: str
    group: str
    column: str
    text: str
    metric: Metric
    study: str
    runs: str
    model: str = "small"
    unit: str = "%"


_ALFWORLD, _SHOP, _SHOP_SCORE = "alfworld/All", "webshop/success", "webshop/score"
_GATED, _ALIASED, _MAIN = "gated_gagpo", "observation_aliasing", "main_alfworld"
_GATE, _CURVE = "Gate open at the last update,", "ALFWorld training success, mean over updates"
_SMALL, _LARGE = "training curve 1.5B", "training curve 7B"
_UPDATE, _RUNTIME = "an ALFWorld update", {"study": "runtime", "runs": "gated_bepo"}

NUMBERS = (
    Number("gagpo", "ungated", _SHOP, "GAGPO ungated, WebShop success", SUCCESS, _GATED, "gagpo"),
    Number("gagpo", "ungated", _SHOP_SCORE, "GAGPO ungated, WebShop task score", SCORE, _GATED, "gagpo"),
    Number("gagpo", "gated", _SHOP, "GAGPO gated, WebShop success", SUCCESS, _GATED, "gated_bepo"),
    Number("gagpo", "gated", _SHOP_SCORE, "GAGPO gated, WebShop task score", SCORE, _GATED, "gated_bepo"),
    *(
        Number(m, seen, _ALFWORLD, f"{name}, ALFWorld success, {seen} observations", SUCCESS, _ALIASED, f"{m} {seen}")
        for seen in ("augmented", "raw")
        for m, name in (("graphgpo", "GraphGPO"), ("gated_bepo", "Gated-BEPO"))
    ),
    *(
        Number("gate_coverage", env, metric.key, f"{_GATE} {name} {metric.key}", metric, f"main_{env}", "gated_bepo")
        for env, name in (("webshop", "WebShop"), ("alfworld", "ALFWorld"))
        for metric in (TRANSITIONS, STATES)
    ),
    Number("gated_bepo", _SMALL, _ALFWORLD, f"Gated-BEPO 1.5B, {_CURVE}", CURVE, _MAIN, "gated_bepo"),
    Number("hgpo", _SMALL, _ALFWORLD, f"HGPO 1.5B, {_CURVE}", CURVE, _MAIN, "hgpo"),
    Number("gigpo", _SMALL, _ALFWORLD, f"GiGPO 1.5B, {_CURVE}", CURVE, _MAIN, "gigpo"),
    Number("grpo", _SMALL, _ALFWORLD, f"GRPO 1.5B, {_CURVE}", CURVE, _MAIN, "grpo"),
    Number("gated_bepo", _LARGE, _ALFWORLD, f"Gated-BEPO 7B, {_CURVE}", CURVE, _MAIN, "gated_bepo", "large"),
    Number("hgpo", _LARGE, _ALFWORLD, f"HGPO 7B, {_CURVE}", CURVE, _MAIN, "hgpo", "large"),
    Number("advantage_stage", "alfworld", "seconds", f"Advantage stage of {_UPDATE}", CREDIT, **_RUNTIME, unit="s"),
    Number("other_stages", "alfworld", "seconds", f"Other stages of {_UPDATE}", OTHERS, **_RUNTIME, unit="s"),
    Number("advantage_stage", "alfworld", "share", f"Advantage stage, share of {_UPDATE}", SHARE, **_RUNTIME),
)


@artefact("in-text", "table", study=STUDIES)
def in_text(studies: Studies) -> Table:
    """Set the numbers of the text beside those of the runs."""
    of_paper = {entry.key: entry.value for entry in published("text")}
    entries = [_entry(number, studies[number.study], of_paper) for number in NUMBERS]
    rows = []
    for number, entry in zip(NUMBERS, entries):
        seeds = entry.sample.seed_counts if entry.sample else None
        reported, reproduced, gap = entry.printed(number.metric.format)
        reproduced = reproduced if entry.reproduced else Printed(entry.missing)
        rows.append([number.text, number.unit, reported, reproduced, gap, seeds])
    runs = list({run.id: run for entry in entries for run in entry.runs}.values())
    notes = [
        " ".join(protocol(studies.values(), runs)),
        "Seeds: training × evaluation. ±: over training seeds, or, of one training seed, over evaluation seeds.",
        "GAGPO is a reconstruction; with the gate it equals Gated-BEPO at zero Bellman iterations.",
        *origins(runs),
    ]
    columns = ["Quantity", "Unit", "Reported", f"Reproduced ({studies.tier})", "Gap", "Seeds"]
    caption = "Numbers that stand in the paper's text only. A dash: the paper gives none."
    return Table(caption, columns, rows, notes, left=2, entries=entries)


def _entry(number: Number, study: StudyRuns, of_paper: dict) -> Entry:
    key = ("text", number.row, number.group, number.column)
    entry = Entry(f"in-text/{number.text}", key, of_paper.get(key))
    entry.runs = [run for run in study.rows.get(number.runs, []) if run.model == number.model]
    entry.sample = number.metric.sample(entry.runs)
    entry.reproduced = estimate(entry.sample, "evaluation") if entry.sample else None
    entry.missing = next((reason for (_, _, row), reason in study.refused.items() if row == number.runs), NOT_RUN)
    return entry
