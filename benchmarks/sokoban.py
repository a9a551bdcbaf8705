"""Sokoban: the time of a step with and without images, compared with gym-sokoban if it is installed."""

from __future__ import annotations

import numpy as np

from benchmarks.timing import cpu_seconds
from bepo.envs.sokoban import render
from bepo.envs.sokoban.engine import Boards
from bepo.envs.sokoban.rooms import generate


def sokoban(batch: int = 512, steps: int = 50) -> None:
    """Print the time of a step per board of a batch."""
    rooms = [generate(seed) for seed in range(batch)]
    boards = Boards(*(np.stack(part) for part in zip(*rooms)))
    actions = np.random.default_rng(0).integers(1, 5, (steps, batch))

    def play(images: bool) -> None:
        for a in actions:
            boards.step(a)
            if images:
                render.rgb(boards.cells)

    ours = {images: cpu_seconds(lambda i=images: play(i), 5) / (steps * batch) for images in (False, True)}
    print(f"\nSokoban, batches of {batch}: {1e6 * ours[False]:.2f} us per step, {1e6 * ours[True]:.1f} us with RGB")
    theirs = gym_sokoban()
    if theirs is None:
        print("gym-sokoban is not installed (pip install 'setuptools<66' gym-sokoban): no ratio")
    else:
        print(f"gym-sokoban: {1e6 * theirs:.0f} us per step with RGB; ratio {theirs / ours[True]:.0f}x")


def gym_sokoban(steps: int = 300) -> float | None:
    """Return the seconds of a step with RGB in gym-sokoban, or None if it is not installed."""
    try:
        from gym_sokoban.envs import SokobanEnv
    except ImportError:
        return None
    env = SokobanEnv(dim_room=(6, 6), max_steps=10**6, num_boxes=1)
    env.reset()
    return cpu_seconds(lambda: env.step(np.random.randint(1, 5), observation_mode="rgb_array"), steps)
