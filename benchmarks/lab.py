"""The lab: how many policies learn, and how many transitions are measured, in a CPU second."""

from __future__ import annotations

import numpy as np

from benchmarks.timing import cpu_seconds
from bepo.credit import make
from bepo.lab.fidelity import fidelity
from bepo.lab.learn import Learning, learn, warm_start
from bepo.lab.policies import at_success, noisy_expert
from bepo.lab.probe import of_estimator, probe
from bepo.lab.worlds import Worlds, sokoban_rooms


def lab(boards: int = 100, seeds: int = 20, updates: int = 60, groups: int = 100) -> None:
    """Print seeds and transitions in a CPU second, on Sokoban boards; a seed is a policy with ``updates`` updates."""
    worlds, credit = Worlds(sokoban_rooms(boards)), of_estimator(make("gated_bepo"))
    start, how = warm_start(worlds, 0.3), Learning(seeds=seeds, updates=updates)
    learning = cpu_seconds(lambda: learn(worlds, start, credit, how), 1)
    few = Worlds(worlds.worlds[:16])
    policy = at_success(few, noisy_expert(few), 0.3)
    probed = probe(few, policy, groups=groups)
    playing = cpu_seconds(lambda: probe(few, policy, groups=groups), 3)
    measuring = cpu_seconds(lambda: fidelity(np.asarray(credit(probed), float), probed), 3)
    n = len(probed.rollouts.batch)
    print(f"\nlab: {seeds / learning:.2f} seeds ({updates} updates, 16 tasks of 8 episodes) in a CPU second")
    print(f"lab: {n / playing:,.0f} transitions played and {n / measuring:,.0f} measured in a CPU second")
