"""Tables supp-common-hparams and supp-environment-hparams, from what was composed or run."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from analysis.data.published import PAPER, published
from analysis.data.runs import Studies, StudyRuns, flat
from analysis.grid.artefact import artefact
from analysis.grid.table import Printed, Table

COMPOSED = PAPER / "settings.json"  # python -m bepo.settings
UNLIKE = " ≠"
STUDIES = ("main_alfworld", "main_webshop", "main_sokoban")

# The paper's words for what is one field here; other rows without a field are fixed in the code.
_FIELDS = {"Invalid graph edges / group skew": "credit.mixing"}
_COLUMNS = {
    "train": ("Train", "rollout.tasks"),
    "eval": ("Eval.", "evaluation.tasks"),
    "prompt": ("Prompt", "policy.max_prompt_length"),
    "response": ("Response", "policy.max_response_length"),
    "steps": ("Steps", "env.horizon"),
    "minibatch": ("Minibatch", "training.minibatch_size"),
    "microbatch": ("Micro", "backend.micro_batch"),
    "tp": ("TP", "backend.tensor_parallel_size"),
}


@dataclass(frozen=True)
class PlaceSettings:
    """Settings of Gated-BEPO on one environment with one model; ``runs`` is 0 where they are only composed."""

    env: str
    model: str
    values: dict[str, Any]
    runs: int = 0

    def text(self, names: str) -> str:
        """Return the values of dotted fields joined by `` / ``, as the paper does; a dash where one is missing."""
        values = [self.values.get(name) for name in names.split(" / ")]
        return "–" if None in values else " / ".join(map(_printed, values))


def settings_of_tier(studies: Iterable[StudyRuns], tier: str) -> dict[tuple[str, str], PlaceSettings]:
    """Return the settings by (environment, model). The newest run of Gated-BEPO decides."""
    composed = json.loads(COMPOSED.read_text()).get(tier, {}) if COMPOSED.exists() else {}
    places = {
        (env, model): PlaceSettings(env, model, flat(v)) for p, v in composed.items() for env, model in [p.split()]
    }
    for study in studies:
        for run in sorted((r for r in study.runs if r.method == "gated_bepo"), key=lambda r: r.started):
            place = run.env, run.model
            values = run.settings | flat({"backend": run.config.get("backend", {})})
            places[place] = PlaceSettings(*place, values, places[place].runs + 1 if place in places else 1)
    return places


def agree(ours: str, papers: str) -> bool | None:
    """Do the numbers in two texts agree? None where one of them is no number."""
    try:
        a, b = ([float(part) for part in text.split(" / ")] for text in (ours, papers))
    except ValueError:
        return None
    return a == b


def _printed(value: object) -> str:
    return f"{value:g}".replace("e-0", "e-") if isinstance(value, float) else str(value)


@artefact("supp-common-hparams", "table", study=STUDIES)
def common(studies: Studies) -> Table:
    """Set the paper's common hyper-parameters beside those here."""
    places = settings_of_tier(studies.values(), studies.tier).values()
    rows, headings = [], []
    for entry in published("supp-common-hparams"):
        field = _FIELDS.get(entry.row, entry.row)
        values = _values(field, places)
        mark = UNLIKE * any(agree(ours, entry.mean) is False for ours in values)
        rows.append([entry.column, entry.mean, Printed(_text(values), mark=mark), field if "." in field else ""])
        headings.append(f"{entry.group} settings")
    return Table(
        "Hyper-parameters that all environments share.",
        ["Setting", "Reported", f"Here ({studies.tier})", "Config"],
        rows,
        [_origin(places), "≠ another number than the paper's. Words of the config are its own."],
        headings,
        left=4,
    )


def _values(field: str, places: Iterable[PlaceSettings]) -> dict[str, list[str]]:
    """Return each value that a field has somewhere in the tier with the places that have it; the commonest first."""
    if "." not in field:
        return {"fixed in the code": []}
    counts = Counter(place.text(field) for place in places)
    values = {text: [f"{p.env} {p.model}" for p in places if p.text(field) == text] for text, _ in counts.most_common()}
    return values or {"–": []}


def _text(values: dict[str, list[str]]) -> str:
    """Return the value; where there are several, with the places of all but the commonest."""
    most, *others = values
    elsewhere = "; ".join(f"{value}: {', '.join(values[value])}" for value in others)
    return f"{most} ({elsewhere})" if others else most


@artefact("supp-environment-hparams", "table", study=STUDIES)
def environments(studies: Studies) -> Table:
    """Set the paper's settings of each environment and model beside those here."""
    here = settings_of_tier(studies.values(), studies.tier)
    papers: dict[tuple[str, str], dict[str, str]] = {}
    for entry in published("supp-environment-hparams"):
        papers.setdefault((entry.row, entry.group), {})[entry.column] = entry.mean
    rows = []
    for place in dict.fromkeys([*papers, *here]):
        paper = papers.get(place, {})
        if paper:
            rows.append([*place, "reported", *(paper.get(name) for name in _COLUMNS)])
        if place in here:
            ours = [(here[place].text(field), paper.get(name, "")) for name, (_, field) in _COLUMNS.items()]
            ours = [Printed(text, mark=UNLIKE * (agree(text, papers_text) is False)) for text, papers_text in ours]
            rows.append([*(["", ""] if paper else place), studies.tier, *ours])
    return Table(
        "Settings by environment and model. Train and Eval.: tasks an update and an evaluation pass; Prompt and "
        "Response: most tokens; Steps: horizon; Minibatch: records of an optimiser step; Micro: of a pass, per device; "
        "TP: devices of a sampling replica.",
        ["Environment", "Model", "", *(head for head, _ in _COLUMNS.values())],
        rows,
        [
            _origin(here.values()),
            "≠ another number than the paper's. – no such setting: micro-batches are bounded in tokens here, and one "
            "process samples without tensor parallelism.",
        ],
        left=3,
    )


def _origin(places: Iterable[PlaceSettings]) -> str:
    run = [f"{p.env} {p.model} ({p.runs})" for p in places if p.runs]
    if not run:
        return "As composed from conf/ and experiments/; nothing of it was run at this tier."
    return f"From the runs of {', '.join(run)}; the others as composed from conf/ and experiments/."
