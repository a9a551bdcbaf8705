"""The split into training, validation and test goals: disjoint parts, or verl-agent's overlapping ones."""

from __future__ import annotations

from collections.abc import Iterator

from bepo.envs import Split
from bepo.envs.webshop.goals import permutation

_TRAINING_WORKERS, _VALIDATION_WORKERS = 16, 128
_VALIDATION_SEED = 1000  # verl-agent adds it to the seed of its validation workers
_FIRST_TRAINING_GOAL = 500


def disjoint_ranges(n_goals: int) -> dict[Split, range]:
    """Return the positions of each split in one permutation of the goals, in the order test, validation, train.

    There are 500 test goals, as in the original, and 1,000 validation goals. Each is at most a tenth of all goals.
    """
    test, validation = min(500, n_goals // 10), min(1000, n_goals // 10)
    return {
        "test": range(test),
        "validation": range(test, test + validation),
        "train": range(test + validation, n_goals),
    }


def verl_agent_goals(split: Split, n_goals: int, seed: int) -> Iterator[tuple[int, int]]:
    """Yield ``(price seed, number of a goal)`` as verl-agent's workers draw them.

    Worker ``w`` permutes the goals with the seed ``seed + w``. Positions 0 to 499 of each permutation are for
    validation, the others for training. The permutations differ, so the splits overlap. Here the first half of the
    validation positions gives the test goals.
    """
    first, workers = (0, _TRAINING_WORKERS) if split == "train" else (_VALIDATION_SEED, _VALIDATION_WORKERS)
    border = min(_FIRST_TRAINING_GOAL, n_goals // 10)
    places = {"train": range(border, n_goals), "validation": range(border // 2, border), "test": range(border // 2)}
    permutations: dict[int, list[int]] = {}
    for place in places[split]:
        for worker_seed in range(seed + first, seed + first + workers):
            if worker_seed not in permutations:
                permutations[worker_seed] = permutation(n_goals, worker_seed)
            yield worker_seed, permutations[worker_seed][place]
