"""Table in-text: the numbers that stand in the paper's prose only, reported beside reproduced."""

import pandas as pd
import yaml

from analysis.data.reported import PAPER, entries_of
from analysis.data.runs import METHOD, OBSERVATIONS, Run, Studies
from analysis.data.statistics import Estimate
from analysis.grid.artefact import artefact
from analysis.grid.notes import origins, protocol
from analysis.grid.parts import Metric
from analysis.grid.table import NOT_RUN, Entry, Table

NUMBERS = PAPER / "in_text.yaml"
STUDIES = {"gated_gagpo": METHOD, "observation_aliasing": OBSERVATIONS, "main_webshop": METHOD, "main_alfworld": METHOD}
STUDIES |= {"runtime": METHOD}
_OTHER_STAGES = [f"seconds/{stage}" for stage in ("rollout", "old_logprob", "reference", "values", "update")]


def _other_stages(run: Run) -> pd.DataFrame:
    return run.metrics.filter(_OTHER_STAGES)


def _credit_share(run: Run) -> float:
    credit = run.metrics["seconds/credit"].sum()
    return 100 * credit / (credit + _other_stages(run).sum().sum())


METRICS = {
    "success": Metric("success", "success"),
    "score": Metric("score", "score", value="task_score"),
    "training success": Metric("", "", value=lambda run: 100 * run.mean("train/success")),
    "open transitions": Metric("", "", value=lambda run: 100 * run.metrics["credit/gate_transition_coverage"].iloc[-1]),
    "open states": Metric("", "", value=lambda run: 100 * run.metrics["credit/gate_state_coverage"].iloc[-1]),
    "credit seconds": Metric("", "", value=lambda run: run.mean("seconds/credit"), format=".3g"),
    "other seconds": Metric("", "", value=lambda run: float(_other_stages(run).sum(axis=1).mean())),
    "credit share": Metric("", "", value=_credit_share, format=".2g"),
}


@artefact("in-text", "table", study=STUDIES)
def in_text(studies: Studies) -> Table:
    """Set the numbers of the text beside those of the runs."""
    of_paper = {entry.key: entry.value for entry in entries_of("text") if isinstance(entry.value, Estimate)}
    rows, entries = [], []
    for number in yaml.safe_load(NUMBERS.read_text()):
        study, metric = studies[number["study"]], METRICS[number["metric"]]
        key = ("text", number["row"], number["group"], number["column"])
        entry = Entry(f"in-text/{number['text']}", key, of_paper.get(key))
        entry.runs = [r for r in study.rows.get(number["runs"], []) if r.model == number.get("model", "small")]
        entry.reproduced = metric.estimate(entry.runs, "evaluation")
        refusals = (reason for (_, _, row), reason in study.refused.items() if row == number["runs"])
        entry.missing = next(refusals, NOT_RUN)
        reported, reproduced, gap = entry.printed(metric.format)
        reproduced = reproduced if entry.reproduced else entry.missing
        seeds = entry.reproduced.sample.seed_counts if entry.reproduced else None
        rows.append([number["text"], number.get("unit", "%"), reported, reproduced, gap, seeds])
        entries.append(entry)
    runs = list({run.id: run for entry in entries for run in entry.runs}.values())
    return Table(
        "Numbers that stand in the paper's text only. A dash: the paper gives none.",
        ["Quantity", "Unit", "Reported", f"Reproduced ({studies.tier})", "Gap", "Seeds"],
        rows,
        [
            " ".join(protocol(studies.values(), runs)),
            "Seeds: training × evaluation. ±: over training seeds, or, of one training seed, over evaluation seeds.",
            "GAGPO is a reconstruction; with the gate it equals Gated-BEPO at zero Bellman iterations.",
            *origins(runs),
        ],
        left=2,
        entries=entries,
    )
