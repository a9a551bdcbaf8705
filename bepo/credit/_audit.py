"""Diagnostics shared by graph-based estimators: coverage, graph sizes, repetition, degenerate advantage mass."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from bepo.graph import RolloutGraph

BUCKETS = ((1, 1), (2, 3), (4, 7), (8, None))  # visits of a state, inclusive


def audit(graph: RolloutGraph, advantage: Float[np.ndarray, " N"], gate: Float[np.ndarray, " S"]) -> dict[str, float]:
    """Metrics behind the paper's gate and graph figures. Shares are of all records unless they say states or mass."""
    group, visits = graph.group, graph.visits
    source = visits > 0
    n_sources = int(source.sum())
    seen = visits[group.state]
    closed = gate[group.state] == 0
    mass = np.abs(advantage)
    total = mass.sum() or 1.0
    metrics = {
        "gate_record_coverage": float(gate[group.state].mean()),
        "gate_state_coverage": float(gate[source].sum() / n_sources),
        "states_per_group": n_sources / group.n_groups,
        "visits_per_state": len(group) / n_sources,
        "singleton_records": float((seen == 1).mean()),
        "advantage_std": float(advantage.std()),
        "mass_singleton_states": float(mass[seen == 1].sum() / total),
        "mass_closed_gate": float(mass[closed].sum() / total),
        "zero_advantage_records": float((mass == 0).mean()),
    }
    for low, high in BUCKETS:
        label = f"{low}" if low == high else f"{low}_{high}" if high else f"{low}_up"
        inside = (seen >= low) & (seen <= (high or seen.max()))
        metrics[f"records_visits_{label}"] = float(inside.mean())
    return metrics
