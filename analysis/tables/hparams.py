"""Tables supp-common-hparams and supp-environment-hparams, from what was composed or run."""

from collections import Counter
from collections.abc import Iterable

from analysis.data.published import published
from analysis.data.runs import Studies
from analysis.data.settings import PlaceSettings, agree, settings_of_tier
from analysis.grid.artefact import artefact
from analysis.grid.table import Printed, Table

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
