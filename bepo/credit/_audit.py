"""Diagnostics of every estimator: graph sizes, repetition, and the share of advantage without a real comparison."""

from __future__ import annotations

import numpy as np

from bepo.core.batch import RolloutBatch
from bepo.core.graph import RolloutGraph
from bepo.core.interning import run_starts
from bepo.core.returns import discounted_returns, tied
from bepo.credit import Credit

BUCKETS = ((1, 1), (2, 3), (4, 7), (8, None))  # visits of a state, inclusive
GAMMA = 0.95  # discount of the returns of ``tied_states``, the same for all estimators


def audit(batch: RolloutBatch, credit: Credit) -> dict[str, float]:
    """Return the metrics of the paper's gate and graph figures, and an audit of degenerate comparisons.

    Counts are of ``credit.graph``, or of the batch's graph where the estimator names none.

    Names with "states" are shares of states, other names are shares of transitions. ``mass_*`` is the share of sum |A|
    on transitions with
    1. ``singleton_states``: a state that occurs once;
    2. ``tied_states``: a recurring state that always has the same discounted return;
    3. ``tied_groups``: a group whose trajectories all have the same return;
    4. ``without_branch``: a state with one distinct successor;
    5. ``closed_gate``: a gate of 0 (estimators with a gate only).
    """
    graph = credit.graph or RolloutGraph(batch)
    batch, visits, gate = graph.batch, graph.visits, credit.gate
    sources = visits > 0
    seen, branching = visits[batch.state], graph.branches >= 2
    weight = np.abs(credit.advantage)
    total = weight.sum() or 1.0
    degenerate = {
        "singleton_states": seen == 1,
        "tied_states": _tied_states(graph)[batch.state] & (seen > 1),
        "tied_groups": tied(batch.episode_return, run_starts(batch.trajectory_group))[batch.group],
        "without_branch": ~branching[batch.state],
    }
    metrics = {
        "states_per_group": sources.sum() / batch.n_groups,
        "visits_per_state": len(batch) / sources.sum(),
        "branching_transitions": branching[batch.state].mean(),
        "branching_states": branching[sources].mean(),
        "singleton_transitions": degenerate["singleton_states"].mean(),
        "zero_advantage_transitions": (weight == 0).mean(),
    }
    if gate is not None:
        metrics["gate_transition_coverage"] = gate[batch.state].mean()
        metrics["gate_state_coverage"] = gate[sources].mean()
        degenerate["closed_gate"] = gate[batch.state] == 0
    metrics |= {f"mass_{name}": weight[where].sum() / total for name, where in degenerate.items()}
    for low, high in BUCKETS:
        label = f"{low}" if low == high else f"{low}_{high}" if high else f"{low}_up"
        metrics[f"transitions_visits_{label}"] = ((seen >= low) & (seen <= (high or len(batch)))).mean()
    return {name: float(value) for name, value in metrics.items()}


def _tied_states(graph: RolloutGraph) -> np.ndarray:
    """Return whether all discounted returns of a state are equal, shape (S,), bool."""
    order, states, starts = graph.batch.by_state
    flat = np.zeros(graph.batch.n_states, bool)
    flat[states] = tied(discounted_returns(graph.batch, GAMMA)[order], starts)
    return flat
