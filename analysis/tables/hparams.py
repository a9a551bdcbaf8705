"""Tables supp-common-hparams and supp-environment-hparams, from what was composed or run."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.artefact import Table, Value, artefact
from analysis.reported import reported
from analysis.runs import Study
from analysis.settings import Settings, agree, of_tier

UNLIKE = " ≠"
STUDIES = ("main_alfworld", "main_webshop", "main_sokoban")

# The paper's words for what is one field here; other rows without a field are fixed in the code.
_FIELDS = {"Invalid graph edges / group skew": "credit.mixing"}
_COLUMNS = {
    "train": ("Train", "rollout.tasks"),
    "eval": ("Eval.", "evaluation.tasks"),
    "prompt": ("Prompt", "policy.max_prompt"),
    "response": ("Response", "policy.max_response"),
    "steps": ("Steps", "env.horizon"),
    "minibatch": ("Minibatch", "training.minibatch"),
    "microbatch": ("Micro", "backend.micro_batch"),
    "tp": ("TP", "backend.tensor_parallel"),
}


@artefact("supp-common-hparams", "table", study=STUDIES)
def common(studies: Mapping[str, Study]) -> Table:
    scale = next(iter(studies.values())).scale
    places = list(of_tier(studies.values(), scale).values())
    rows: list[list[Value]] = []
    headings, marks = {}, {}
    for cell in reported("supp-common-hparams"):
        if cell.group not in headings.values():
            headings[len(rows)] = cell.group
        field = _FIELDS.get(cell.row, cell.row)
        paper, found = cell.printed[0], _by_value(field, places)
        rows.append([cell.column, paper, _told(found), field if "." in field else ""])
        if any(agree(ours, paper) is False for ours in found):
            marks[len(rows) - 1, 2] = UNLIKE
    return Table(
        caption="Hyper-parameters that all environments share.",
        columns=["Setting", "Reported", f"Here ({scale})", "Config"],
        rows=rows,
        headings={i: f"{name} settings" for i, name in headings.items()},
        rules=set(headings),
        marks=marks,
        left=4,
        notes=[_origin(places), "≠ another number than the paper's. Words of the config are its own."],
    )


def _by_value(field: str, places: list[Settings]) -> dict[str, list[str]]:
    """Each value that a field has somewhere in the tier, and the places that have it; the commonest first."""
    if "." not in field:
        return {"fixed in the code": []}
    found: dict[str, list[str]] = {}
    for place in places:
        found.setdefault(place.text(field), []).append(f"{place.env} {place.model}")
    return dict(sorted(found.items(), key=lambda item: -len(item[1]))) or {"–": []}


def _told(found: Mapping[str, list[str]]) -> str:
    """The value; where there are several, the places of all but the commonest."""
    most, *others = found
    elsewhere = [f"{value}: {', '.join(found[value])}" for value in others]
    return f"{most} ({'; '.join(elsewhere)})" if others else most


@artefact("supp-environment-hparams", "table", study=STUDIES)
def environments(studies: Mapping[str, Study]) -> Table:
    scale = next(iter(studies.values())).scale
    here = of_tier(studies.values(), scale)
    papers: dict[tuple[str, str], dict[str, str]] = {}
    for cell in reported("supp-environment-hparams"):
        papers.setdefault((cell.row, cell.group), {})[cell.column] = cell.printed[0]
    places = [*papers, *(place for place in here if place not in papers)]
    rows: list[list[Value]] = []
    marks = {}
    for place in places:
        settings, paper = here.get(place), papers.get(place, {})
        for j, (name, (_, field)) in enumerate(_COLUMNS.items(), start=3):
            ours = settings.text(field) if settings else "–"
            if agree(ours, paper.get(name, "")) is False:
                marks[len(rows) + bool(paper), j] = UNLIKE
        if paper:
            rows.append([*place, "reported", *(paper.get(name) for name in _COLUMNS)])
        if settings:
            names = ["", ""] if paper else [*place]
            rows.append([*names, scale, *(settings.text(field) for _, field in _COLUMNS.values())])
    return Table(
        caption=(
            "Settings by environment and model. Train and Eval.: tasks an update and an evaluation pass; Prompt and "
            "Response: most tokens; Steps: horizon; Minibatch: records of an optimiser step; Micro: of a pass, per "
            "device; TP: devices of a sampling replica."
        ),
        columns=["Environment", "Model", "", *(head for head, _ in _COLUMNS.values())],
        rows=rows,
        marks=marks,
        left=3,
        notes=[
            _origin(list(here.values())),
            "≠ another number than the paper's. – no such setting: micro-batches are bounded in tokens here, and one "
            "process samples without tensor parallelism.",
        ],
    )


def _origin(places: list[Settings]) -> str:
    run = [f"{p.env} {p.model} ({p.runs})" for p in places if p.runs]
    if not run:
        return "As composed from conf/ and experiments/; nothing of it was run at this tier."
    return f"From the records of {', '.join(run)}; the others as composed from conf/ and experiments/."
