"""Credit estimators: time by number of transitions, and compared with the slow reference of the tests."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from benchmarks.timing import cpu_seconds
from bepo.core.batch import RolloutBatch
from bepo.core.tokens import Tokens
from bepo.credit import Credit, estimators
from bepo.credit._audit import audit

_ENDS = (None, "success", "failure", "truncation")  # the reference's name of each ``Terminal``


def credit(groups: tuple[int, int] = (16, 2500), repeats: tuple[int, int] = (20, 3)) -> None:
    """Print the time of each estimator on batches with these numbers of groups, and how much slower the reference is.

    A group has 400 transitions. The smaller batch is also measured with two other graphs: ``random_batch`` says which.
    The oracle has no reference in the tests.
    """
    from tests.credit import reference

    small, large = map(random_batch, groups)
    layered, distinct = (random_batch(groups[0], graph=graph) for graph in ("layers", "distinct"))
    rows = as_rows(small)
    factor = len(large) / len(small)
    print(
        f"\n{'estimator':12} {f'{len(small):,} transitions':>18} {'in layers':>12} {'all differ':>12} "
        f"{f'{len(large):,} transitions':>22} "
        f"{f'growth / {factor:.0f}':>13} {'reference / ours':>17}"
    )
    chosen = {name: cls() for name, cls in estimators().items()} | {"diagnostics": _diagnostics}
    for name, estimator in chosen.items():
        few, layers, differ, many = (
            max(cpu_seconds(lambda e=estimator, b=batch: e(copy(b)), n) - cpu_seconds(lambda b=batch: copy(b), n), 1e-9)
            for batch, n in zip((small, layered, distinct, large), (*[repeats[0]] * 3, repeats[1]))
        )
        slow = "none"
        if plain := vars(reference).get(name):
            slow = f"{cpu_seconds(lambda p=plain, e=estimator: p(rows, e), repeats[1]) / few:.0f}x"
        times = f"{1e3 * few:15.2f} ms {1e3 * layers:9.2f} ms {1e3 * differ:9.2f} ms {1e3 * many:19.0f} ms"
        print(f"{name:12} {times} {many / few / factor:13.2f} {slow:>17}")


def _diagnostics(batch: RolloutBatch) -> dict[str, Any]:
    """Return what the trainer logs of every estimator."""
    return audit(batch, Credit(batch.reward))


def random_batch(
    n_groups: int,
    group_size: int = 8,
    steps: int = 50,
    states: int = 60,
    graph: Literal["jumps", "layers", "distinct"] = "jumps",
) -> RolloutBatch:
    """Return a batch like ALFWorld's: 8 trajectories of 50 steps in a group, half of them successes, 60 states.

    The text of a state has 40 of 500 words. ``graph``: a step leads to any of the ``states``, to one of five states of
    its own, so that paths are long, or to a state that no other step has.
    """
    rng = np.random.default_rng(0)
    m, n = n_groups * group_size, n_groups * group_size * steps
    keys = rng.integers(0, 5 if graph == "layers" else states, (m, steps + 1))
    if graph == "layers":
        keys, states = keys + 5 * np.arange(steps + 1), 5 * (steps + 1)
    elif graph == "distinct":
        states = group_size * (steps + 1)
        keys = np.tile(np.arange(states).reshape(group_size, steps + 1), (n_groups, 1))
    keys = keys + (np.arange(m) // group_size * states)[:, None]
    terminal = np.zeros((m, steps), np.int8)
    terminal[:, -1] = rng.choice([1, 3], m)
    return RolloutBatch(
        task=[str(g) for g in range(n_groups)],
        group=np.repeat(np.arange(n_groups), group_size * steps),
        trajectory=np.repeat(np.arange(m), steps),
        step=np.tile(np.arange(steps), m),
        state=keys[:, :-1].ravel(),
        next_state=keys[:, 1:].ravel(),
        terminal=terminal.ravel(),
        reward=10.0 * (terminal == 1).ravel(),
        valid=np.ones(n, bool),
        task_score=(terminal[:, -1] == 1).astype(float),
        state_group=np.repeat(np.arange(n_groups), states),
        state_key=_texts(n_groups * states),
        row=np.arange(n),
        tokens=random_tokens(n),
        action=rng.integers(0, 4, n).astype(np.int32),
        action_key=["up", "down", "left", "right"],
        extras={
            "expert_steps": rng.integers(0, 20, n).astype(float),
            "next_expert_steps": rng.integers(0, 20, n).astype(float),
            "entropy": rng.random(n),
            "energy": rng.random(n),
            "continuation": 10 * rng.random(n),
        },
    )


def _texts(n: int) -> list[str]:
    words = np.array([f"word{i}" for i in range(500)])
    return [" ".join(words[chosen]) for chosen in np.random.default_rng(1).integers(0, len(words), (n, 40))]


def random_tokens(n: int, response: int = 4) -> Tokens:
    """Return a prompt of one token and ``response`` response tokens for each transition, with a critic's values."""
    return Tokens(
        ids=np.zeros(n * (1 + response), np.int32),
        prompt_length=np.ones(n, np.int32),
        response_length=np.full(n, response, np.int32),
        logprob=np.zeros(n * response, np.float32),
        allowed_ids=np.empty(0, np.int32),
        allowed_length=np.zeros(n * response, np.int32),
        value=np.random.default_rng(1).normal(size=n * response).astype(np.float32),
    )


def copy(batch: RolloutBatch) -> RolloutBatch:
    """Return the same transitions without the arrays that a batch caches."""
    return RolloutBatch.concat([batch])


def as_rows(batch: RolloutBatch) -> list[dict[str, Any]]:
    """Return the transitions as rows for the reference."""
    actions, values = batch.actions, np.split(batch.tokens.value, batch.tokens.response_offset[1:-1])
    return [
        {
            "uid": int(batch.group[i]),
            "traj": int(batch.trajectory[i]),
            "t": int(batch.step[i]),
            "obs": int(batch.state[i]),
            "next": int(batch.next_state[i]),
            "r": float(batch.reward[i]),
            "done": _ENDS[batch.terminal[i]],
            "valid": True,
            "action": actions[i],
            **{name: float(values[i]) for name, values in batch.extras.items()},
            "values": values[i].tolist(),
        }
        for i in range(len(batch))
    ]
