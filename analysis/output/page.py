"""The report: one HTML page with every artefact and its provenance, which opens from disk."""

import csv
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

from analysis.grid.table import Table
from analysis.output.build import Built
from analysis.output.text import statistics

_FOLDER = FileSystemLoader(Path(__file__).parent)
_COLUMNS = ("entry", "reproduced", "std", "over", "seeds", "low", "high", "rival", "difference", "improvement")


def render(built: Sequence[Built], tiers: Sequence[str], source: str) -> str:
    """Return the page; ``source`` says where the runs come from."""
    page = Environment(loader=_FOLDER, autoescape=True, trim_blocks=True, lstrip_blocks=True).get_template("page.html")
    items = [one for one in built if one.studies or one.tier == built[0].tier]  # without studies all tiers are the same
    return page.render(items=items, tiers=list(tiers), source=source, numbers=_numbers)


def _numbers(table: Table) -> list[list[str]]:
    """Return the statistics of the entries that have runs, under a line of heads."""
    lines = csv.DictReader(statistics(table.entries).splitlines())
    return [list(_COLUMNS), *([_short(line[name]) for name in _COLUMNS] for line in lines if line["runs"])]


def _short(text: str) -> str:
    try:
        return f"{float(text):.4g}"
    except ValueError:
        return text
