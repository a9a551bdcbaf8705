"""Table lab-bias: the exact expected update of each estimator against the true gradient."""

from analysis.data.lab import OverWorlds, label_of, plan, recorded
from analysis.grid.artefact import artefact
from analysis.grid.table import Printed, Table

EXACT = 1e-9
"""Below this distance from the true direction an estimator counts as unbiased; rounding leaves 1e-12."""
_WORLDS = ("Tree", "Chain", "Chain, costs", "Chain, aliased")


@artefact("lab-bias", "table")
def lab_bias(_: object) -> Table:
    """Compare expected updates with the true gradient."""
    declared, measured = plan()["bias"], recorded("bias")
    distances = {
        words: [measured.values(at, words, "distance") for at in declared["at"]] for words in declared["estimators"]
    }
    unbiased = [[label_of(words) for words, row in distances.items() if _is_zero(row[j])] for j in range(len(_WORLDS))]
    everywhere = [name for name in unbiased[0] if all(name in names for names in unbiased)]
    return Table(
        "Exact bias: how far the expected update of a group points away from the gradient of success.",
        ["Estimator", *_WORLDS],
        [[label_of(words), *map(_printed, row)] for words, row in distances.items()],
        [
            "All groups of two trajectories, weighted by their probability. A number is the distance of the expected "
            "update from the best multiple of the true gradient, relative to it. 0: the direction is unbiased.",
            "Tree: one successful leaf of 81; all episodes have 4 steps, and none visits a state twice. Chain: a "
            "corridor of 4 places and at most 5 steps; states are revisited, episodes end at different steps. "
            "Costs: a step costs 0.1. Aliased: with costs, and the states before and after the pivotal step look the "
            "same, also to the policy.",
            f"Unbiased in all of them: {', '.join(everywhere) or 'none'}. The gradient is that of success; with costs, "
            "returns are something else.",
        ],
    )


def _is_zero(distance: OverWorlds | None) -> bool:
    return distance is not None and bool(distance[0] < EXACT)


def _printed(distance: OverWorlds | None) -> Printed | str:
    if distance is None:
        return "–"
    return Printed("0", bold=True) if _is_zero(distance) else f"{distance[0]:.3f}"
