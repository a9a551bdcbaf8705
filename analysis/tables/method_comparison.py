"""Tables method-comparison and estimators: the traits of step-credit estimators, as their classes declare them."""

from collections.abc import Iterable

from analysis.data.methods import (
    ORDER,
    is_privileged,
    is_reconstruction,
    known_methods,
    name_of,
    ordered,
)
from analysis.data.reported import entries_of
from analysis.data.runs import grouped
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.table import Printed, Table

_COLUMNS = ("step_credit", "temporal", "mixing")


@artefact("method-comparison", "table")
def method_comparison(_: Studies) -> Table:
    """Show the traits of the paper's estimators beside the paper's description."""
    entries = grouped(entries_of("method-comparison"), lambda entry: entry.row)
    papers = {row: {entry.column: entry.mean for entry in same} for row, same in entries.items()}
    reported = {name: "; ".join(paper[column] for column in _COLUMNS) for name, paper in papers.items()}
    rows = [*papers, *(name for name in _of_steps(ORDER) if name not in papers)]
    caption = "Critic-free estimators of step credit, as the code declares them, beside the paper's description."
    return _traits(caption, "Reported", {name: reported.get(name) for name in rows})


@artefact("estimators", "table")
def estimators(_: Studies) -> Table:
    """Show the traits of the estimators that the paper does not have."""
    rows = ordered(_of_steps(known_methods().keys() - set(ORDER)))
    caption = "Critic-free estimators of step credit beyond the paper's, as the code declares them."
    return _traits(caption, "Source", {name: known_methods()[name].citation for name in rows})


def _of_steps(names: Iterable[str]) -> list[str]:
    """Return the methods among these that assign credit to steps and have no critic."""
    known = known_methods()
    return [
        n
        for n in names
        if known[n].traits["step_credit"] != "None" and not known[n].needs_critic and not is_privileged(n)
    ]


def _traits(caption: str, last: str, rows: dict[str, str | None]) -> Table:
    """Return a table of methods; ``rows`` has the text of each method's last column."""
    known, lines = known_methods(), []
    for name, text in rows.items():
        traits = known[name].traits
        method = Printed(name_of(name), mark="ʳ" * is_reconstruction(name))
        lines.append([method, *(traits[column] for column in _COLUMNS), traits["needs"], text])
    return Table(caption, ["Method", "Step credit", "TD/GAE", "Gate/mix", "Needs", last], lines, left=6)
