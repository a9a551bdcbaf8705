"""The report: one HTML page with every artefact and its provenance, which opens from disk."""

import csv
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader

from analysis.claims.verdicts import VERDICTS, Evaluated
from analysis.data.methods import environment_name, name_of, ordered
from analysis.grid.table import Table
from analysis.output.build import Built
from analysis.output.text import statistics

_FOLDER = FileSystemLoader(Path(__file__).parent)
_TABLES = {"text": "in-text"}  # where the entries of reported/text.csv are shown
_COLUMNS = ("entry", "reproduced", "std", "over", "seeds", "low", "high", "rival", "difference", "improvement")


def render(
    built: Sequence[Built], tiers: Sequence[str], source: str, claims: Mapping[str, Sequence[Evaluated]] | None = None
) -> str:
    """Return the page; ``source`` says where the runs come from, ``claims`` has those of each tier, evaluated."""
    page = Environment(loader=_FOLDER, autoescape=True, trim_blocks=True, lstrip_blocks=True).get_template("page.html")
    items = [one for one in built if one.studies or one.tier == built[0].tier]  # without studies all tiers are the same
    answers = [_answer(tier, evaluated, items) for tier, evaluated in (claims or {}).items()]
    return page.render(items=items, tiers=list(tiers), source=source, numbers=_numbers, answers=answers)


def _answer(tier: str, evaluated: Sequence[Evaluated], items: Sequence[Built]) -> dict[str, Any]:
    """Return what stands on top of the page about a tier: what was run, and its claims by verdict."""
    runs = {run.id: run for item in items if item.tier == tier for run in item.runs}.values()
    shown = {item.label for item in items if item.tier == tier}
    what = {
        "runs": len(runs),
        "environments": ", ".join(sorted({environment_name(run.env) for run in runs})),
        "methods": ", ".join(name_of(method) for method in ordered({run.method for run in runs})),
        "seeds": len({run.seed for run in runs}),
    }
    by_word = {word: [_line(e, shown) for e in evaluated if e.runs.word == word] for word in VERDICTS}
    return {"tier": tier, "what": what, "claims": by_word}


def _line(e: Evaluated, shown: set[str]) -> dict[str, Any]:
    """Return a claim as a line: what it says, what was printed, what the runs gave, and the artefacts behind it."""
    deciding, printed = e.runs.deciding, e.printed.worst
    labels = {e.claim.entries[name][0] for name in e.claim.names}
    reproduced = interval = ""
    if deciding and isfinite(deciding.value):
        reproduced, (low, high) = f"{deciding.value:+.3g}", deciding.interval
        interval = f"[{low:.3g}, {high:.3g}]" if isfinite(low) else ""
    return {
        "id": e.claim.id,
        "text": e.claim.claim,
        "extension": e.claim.extension,
        "reported": f"{printed.value:.4g}" if printed else "–",
        "reproduced": reproduced or "–",
        "interval": interval,
        "what": str(deciding.inequality) if deciding else "",
        "p": f"{e.runs.tested.p:.2g}" if e.runs.tested else "–",
        "size": ", ".join(dict.fromkeys(size.word for size in e.runs.sizes)),
        "labels": sorted({_TABLES.get(label, label) for label in labels} & shown),
    }


def _numbers(table: Table) -> list[list[str]]:
    """Return the statistics of the entries that have runs, under a line of heads."""
    lines = csv.DictReader(statistics(table.entries).splitlines())
    return [list(_COLUMNS), *([_short(line[name]) for name in _COLUMNS] for line in lines if line["runs"])]


def _short(text: str) -> str:
    try:
        return f"{float(text):.4g}"
    except ValueError:
        return text
