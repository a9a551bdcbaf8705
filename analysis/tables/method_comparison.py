"""Table method-comparison: the traits of step-credit estimators, as their classes declare them."""

from analysis.data.methods import RECONSTRUCTION, is_reconstruction, is_upper_bound, known_methods, name_of, ordered
from analysis.data.reported import entries_of
from analysis.data.runs import grouped
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.table import Printed, Table

_COLUMNS = ("step_credit", "temporal", "mixing")


@artefact("method-comparison", "table")
def method_comparison(_: Studies) -> Table:
    """Show the estimators' traits beside the paper's description."""
    entries = grouped(entries_of("method-comparison"), lambda entry: entry.row)
    papers = {row: {entry.column: entry.mean for entry in same} for row, same in entries.items()}
    known = known_methods()
    own = [
        n
        for n, cls in known.items()
        if cls.traits["step_credit"] != "None" and not cls.needs_critic | is_upper_bound(n)
    ]
    rows = []
    for name in [*papers, *ordered(set(own) - set(papers))]:
        traits, paper = known[name].traits, papers.get(name)
        printed = "; ".join(paper[column] for column in _COLUMNS) if paper else None
        method = Printed(name_of(name), mark="ʳ" * is_reconstruction(name))
        rows.append([method, *(traits[column] for column in _COLUMNS), traits["needs"], printed])
    return Table(
        "Critic-free estimators of step credit, as the code declares them, beside the paper's description.",
        ["Method", "Step credit", "TD/GAE", "Gate/mix", "Needs", "Reported"],
        rows,
        [RECONSTRUCTION] if any(method.mark for method, *_ in rows) else [],
        left=6,
    )
