"""Table reported-elsewhere: what the papers of newer estimators report, as they print it."""

from analysis.data.methods import name_of
from analysis.data.reported import Reported, entries_of
from analysis.data.runs import grouped
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.table import Printed, Table

_COLUMNS = {
    "alfworld/All": "ALFWorld",
    "alfworld/unseen": "ALFWorld, unseen",
    "webshop/score": "WebShop score",
    "webshop/success": "WebShop success",
    "sokoban/success": "Sokoban",
    "scienceworld/score": "ScienceWorld",
}


@artefact("reported-elsewhere", "table")
def reported_elsewhere(_: Studies) -> Table:
    """Show the numbers of each paper with the model, and whether it ran a method again."""
    rows = []
    for (row, group), entries in grouped(entries_of("reported-elsewhere"), lambda e: (e.row, e.group)).items():
        found, first = {entry.column: entry for entry in entries}, entries[0]
        method = Printed(name_of(row), mark="ᶜ" * first.copied)
        numbers = [_printed(found[c]) if c in found else None for c in _COLUMNS]
        rows.append([method, group, *numbers, first.note.removeprefix("copied: ")])
    return Table(
        "Success rates (%) and scores that papers report for newer estimators, on the tasks that are distributed as in "
        "training unless a column says unseen. Deviations are over three training seeds.",
        ["Method", "Model", *_COLUMNS.values(), "Source"],
        rows,
        ["ᶜ copied from another paper's table.", "No number here was measured by this project."],
        left=2,
    )


def _printed(entry: Reported) -> str:
    return f"{entry.mean} ± {entry.std}" if entry.std else entry.mean
