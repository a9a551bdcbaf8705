"""WebShop: the time until a task set is ready, and steps per second."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import islice

import numpy as np

from bepo.envs import Task
from bepo.envs.webshop import WebShop


def webshop(episodes: int = 400, steps: int = 12) -> None:
    """Print steps per second in one process, including observation, buttons and prompt text."""
    start = time.perf_counter()
    env = WebShop()
    tasks = list(islice(env.tasks("train"), episodes))
    ready = time.perf_counter() - start
    rates = {}
    for mode in ("text", "text_rich"):
        env = WebShop(observation_mode=mode)
        env.start(tasks[:1])  # loads the catalogue
        start = time.perf_counter()
        taken = play_randomly(env, tasks, steps)
        rates[mode] = taken / (time.perf_counter() - start)
    print(f"\nWebShop: {ready:.2f} s to a task set on 1,000 products; steps per second: ", end="")
    print(", ".join(f"{mode} {rate:,.0f}" for mode, rate in rates.items()))
    print("the original engine, measured once on another machine of this type: 40")


def play_randomly(env: WebShop, tasks: Sequence[Task], steps: int) -> int:
    """Click random buttons, and search as the expert does on the search page; return the number of steps taken."""
    rng = np.random.default_rng(0)
    episodes = env.start(tasks)
    active, taken = set(range(len(tasks))), 0
    for _ in range(steps):
        actions = {}
        for i in sorted(active):
            buttons = episodes.observations[i].admissible
            actions[i] = episodes.expert(i) if len(buttons) == 1 else buttons[rng.integers(len(buttons))]
        results = episodes.step(actions)
        taken += len(results)
        active -= {i for i, step in results.items() if step.terminal}
    return taken
