"""Table method-comparison: what tells step-credit estimators apart, as each says of itself."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.artefact import Table, Value, artefact
from analysis.methods import RECONSTRUCTION, is_reconstruction, name_of, ordered
from analysis.reported import reported
from analysis.runs import Study
from bepo.credit import Estimator, estimators

_COLUMNS = ("step_credit", "temporal", "mixing")


@artefact("method-comparison", "table")
def method_comparison(studies: Mapping[str, Study]) -> Table:
    papers: dict[str, dict[str, str]] = {}
    for cell in reported("method-comparison"):
        papers.setdefault(cell.row, {})[cell.column] = cell.printed[0]
    known = estimators()
    names = [*papers, *ordered(n for n in known if n not in papers and _critic_free_step_credit(known[n]))]
    rows: list[list[Value]] = []
    marks = {}
    for name in names:
        traits, paper = known[name].traits, papers.get(name)
        printed = "; ".join(paper[c] for c in _COLUMNS) if paper else None
        rows.append([name_of(name), *(traits[c] for c in _COLUMNS), traits["needs"], printed])
        if is_reconstruction(name):
            marks[len(rows) - 1, 0] = "ʳ"
    return Table(
        caption="Critic-free estimators of step credit, as the code describes them, beside the paper's description.",
        columns=["Method", "Step credit", "TD/GAE", "Gate/mix", "Needs", "Reported"],
        rows=rows,
        marks=marks,
        left=6,
        notes=[RECONSTRUCTION] if marks else [],
    )


def _critic_free_step_credit(estimator: type[Estimator]) -> bool:
    return estimator.traits["step_credit"] != "None" and not getattr(estimator, "needs_critic", False)
