"""Tables supp-common-hparams and supp-environment-hparams, from composed settings and from runs."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from analysis.data.reported import entries_of
from analysis.data.runs import flat, grouped
from analysis.data.studies import Studies, StudyRuns
from analysis.grid.artefact import artefact
from analysis.grid.table import Printed, Table
from bepo.core.places import PAPER

COMPOSED = PAPER / "settings.json"  # python -m bepo.settings
UNLIKE = " ≠"
STUDIES = ("main_alfworld", "main_webshop", "main_sokoban")

# Names in the paper for a field of ours. Other rows without a field are fixed in the code.
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
    "group": ("$K$", "rollout.group_size"),
    "updates": ("Updates", "updates"),
}


@dataclass(frozen=True)
class PlaceSettings:
    """Settings of Gated-BEPO for an environment and a model. ``runs`` is 0 if they were composed but never run."""

    values: dict[str, Any]
    runs: int = 0

    def text(self, names: str) -> str:
        """Return the values of dotted fields joined by `` / ``, as the paper does; a dash if one is missing."""
        values = [self.values.get(name) for name in names.split(" / ")]
        return "–" if None in values else " / ".join(map(_printed, values))


def settings_of_tier(studies: Iterable[StudyRuns], tier: str) -> dict[str, PlaceSettings]:
    """Return the settings by place (``alfworld small``). The newest run of Gated-BEPO decides."""
    composed = json.loads(COMPOSED.read_text(encoding="utf-8")).get(tier, {}) if COMPOSED.exists() else {}
    places = {place: PlaceSettings(flat(values)) for place, values in composed.items()}
    runs = [run for study in studies for run in study.runs if run.method == "gated_bepo"]
    for place, same in grouped(runs, lambda run: f"{run.env} {run.model}").items():
        newest = max(same, key=lambda run: run.started)
        values = newest.settings | flat({"backend": newest.config.get("backend", {})})
        places[place] = PlaceSettings(values, len(same))
    return places


def agree(ours: str, papers: str) -> bool | None:
    """Return whether the numbers in two texts agree; None if one of them is not a number."""
    try:
        a, b = ([float(part) for part in text.split(" / ")] for text in (ours, papers))
    except ValueError:
        return None
    return a == b


def _printed(value: object) -> str:
    return f"{value:g}".replace("e-0", "e-") if isinstance(value, float) else str(value)


@artefact("supp-common-hparams", "table", study=STUDIES)
def common(studies: Studies) -> Table:
    """Show the paper's common hyper-parameters beside ours."""
    places = settings_of_tier(studies.values(), studies.tier)
    rows, headings = [], []
    for entry in entries_of("supp-common-hparams"):
        field = _FIELDS.get(entry.row, entry.row)
        values = _values(field, places)
        mark = UNLIKE * any(agree(ours, entry.mean) is False for ours in values)
        rows.append([entry.column, entry.mean, Printed(_text(values), mark=mark), field if "." in field else ""])
        headings.append(f"{entry.group} settings")
    return Table(
        "Hyper-parameters that all environments share.",
        ["Setting", "Reported", f"Here ({studies.tier})", "Config"],
        rows,
        [_origin(places), "≠ differs from the paper's number. Text values are those of the config."],
        headings,
        left=4,
    )


def _values(field: str, places: dict[str, PlaceSettings]) -> dict[str, list[str]]:
    """Return each value that a field has in the tier, and where it has it; the most common value first."""
    if "." not in field:
        return {"fixed in the code": []}
    values = grouped(places, lambda place: places[place].text(field))
    return dict(sorted(values.items(), key=lambda pair: -len(pair[1]))) or {"–": []}


def _text(values: dict[str, list[str]]) -> str:
    """Return the value. If there are several, add the places of all but the most common one."""
    most, *others = values
    elsewhere = "; ".join(f"{value}: {', '.join(values[value])}" for value in others)
    return f"{most} ({elsewhere})" if others else most


@artefact("supp-environment-hparams", "table", study=STUDIES)
def environments(studies: Studies) -> Table:
    """Show the paper's settings of each environment and model beside ours."""
    here = settings_of_tier(studies.values(), studies.tier)
    entries = grouped(entries_of("supp-environment-hparams"), lambda entry: f"{entry.row} {entry.group}")
    papers = {place: {entry.column: entry.mean for entry in same} for place, same in entries.items()}
    rows = []
    for place in dict.fromkeys([*papers, *here]):
        paper, names = papers.get(place, {}), place.split()
        if paper:
            rows.append([*names, "reported", *map(paper.get, _COLUMNS)])
            names = ["", ""]
        if place in here:
            ours = [(here[place].text(field), paper.get(name, "")) for name, (_, field) in _COLUMNS.items()]
            ours = [Printed(text, mark=UNLIKE * (agree(text, papers_text) is False)) for text, papers_text in ours]
            rows.append([*names, studies.tier, *ours])
    return Table(
        "Settings by environment and model. Train and Eval.: tasks per update and per evaluation pass. Prompt and "
        "Response: maximum tokens. Steps: horizon. Minibatch: records per optimiser step. Micro: records per forward "
        "pass and device. TP: devices per sampling replica. $K$: trajectories per task.",
        ["Environment", "Model", "", *(head for head, _ in _COLUMNS.values())],
        rows,
        [
            _origin(here),
            "≠ differs from the paper's number. – no such setting here: micro-batches are limited in tokens, and one "
            "process samples without tensor parallelism.",
        ],
        left=3,
    )


def _origin(places: dict[str, PlaceSettings]) -> str:
    run = [f"{place} ({settings.runs})" for place, settings in places.items() if settings.runs]
    if not run:
        return "Composed from conf/ and experiments/. None of these settings was run at this tier."
    return f"From the runs of {', '.join(run)}. The others are composed from conf/ and experiments/."
