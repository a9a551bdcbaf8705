"""Hypothesis strategies for rollout rows in the golden layout, and for estimators with drawn options."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from hypothesis import reject
from hypothesis import strategies as st

from bepo.core.errors import UserError
from bepo.credit import Estimator

DONE = ("success", "failure", "truncation")


distance = st.sampled_from((float("nan"), 1.0, 2.0, 5.0))  # of the expert to success
value = st.floats(-2, 2, allow_nan=False, width=32)


def tokens(values: list[float]) -> dict[str, Any]:
    """Return the fields of a prompt of one token, and of a response with the given values of a critic."""
    n = len(values)
    return {"prompt_ids": [0], "response_ids": [1] * n, "logprobs": [-0.5] * n, "values": values}


@st.composite
def rollouts(
    draw: st.DrawFn,
    max_groups: int = 2,
    max_size: int = 4,
    max_steps: int = 6,
    n_states: int = 4,
    rewards: tuple[float, ...] = (0.0, -0.1, 0.3),
    unique: bool = False,
) -> list[dict[str, Any]]:
    """Draw rows of a few small groups; the last reward of a success is 10 more. ``unique``: no state occurs twice."""
    rows: list[dict[str, Any]] = []
    fresh = iter(range(10**6))
    for g in range(draw(st.integers(1, max_groups))):
        for k in range(draw(st.integers(1, max_size))):
            steps = draw(st.integers(1, max_steps))
            keys = [f"s{next(fresh)}" if unique else f"s{draw(st.integers(0, n_states - 1))}" for _ in range(steps + 1)]
            done = draw(st.sampled_from(DONE))
            for t in range(steps):
                last, action = t == steps - 1, draw(st.sampled_from(("left", "right", None)))
                rows.append(
                    {
                        "uid": f"u{g}",
                        "traj": f"k{k}",
                        "t": t,
                        "obs": keys[t],
                        "next": keys[t + 1],
                        "r": draw(st.sampled_from(rewards)) + 10.0 * (last and done == "success"),
                        "done": done if last else None,
                        "valid": action is not None and draw(st.booleans()),
                        "action": action,
                        "entropy": draw(st.sampled_from((0.0, 0.5, 1.5))),
                        "energy": draw(st.sampled_from((0.0, 0.25, 1.0))),
                        "continuation": draw(st.sampled_from((0.0, 2.5, 10.0))),
                        "expert_steps": draw(distance),
                        "next_expert_steps": 0.0 if last and done == "success" else draw(distance),
                        **tokens(draw(st.lists(value, min_size=1, max_size=3))),
                    }
                )
    return rows


NUMBERS = {
    "gamma": (0.95, 0.5),
    "gae_lambda": (0.0, 0.8, 1.0),
    "invalid_penalty": (0.0, 0.1),
    "step_invalid_penalty": (0.0, 0.1),
    "iterations": (0, 1, 3, 20),
    "continuations": (1, 4),
    "n_min": (1, 2, 3),
    "b_min": (1, 2, 3),
    "eta_min": (0.0, 0.5, 1.0),
    "history": (0, 1, 2, 4),
    "alpha": (0.5, 1.0),
    "omega": (0.1, 0.8),
    "full_visits": (3, 4),
    "level_offset": (1, 2),
    "beta": (0.98, 0.5),
    "depth": (None, 0, 1, 2, 3),
    "floor": (0.1, 0.01),
    "kappa": (0.0, 0.3, 2.0),
    "tau": (4.0, 1.0),
    "step_floor": (0.0, 1.0),
    "graph_weight": (0.0, 0.5),
    "progress": (0.0, 0.3),
    "icc": (None, 0.0, 0.3, 1.0),
    "k": (0.0, 1.0),
    "k_bonus": (0.0, 1.0),
    "zeta": (0.0, 0.05),
    "temperature": (0.1, 0.0, 1.0),
    "swing": (0.05, 0.0, 0.5),
    "power": (4.0, 1.0),
}


def settings_of(cls: type[Estimator]) -> set[str]:
    """Return the names of an estimator's settings."""
    return {field.name for field in fields(cls)} - {"name"}


def options(cls: type[Estimator]) -> dict[str, list[Any]]:
    """Return values to test of each field: every word of a Literal, both truth values, a few numbers."""
    choices, kinds = {}, get_type_hints(cls)
    for name in settings_of(cls):
        kind = kinds[name]
        words = [w for k in (kind, *get_args(kind)) if get_origin(k) is Literal for w in get_args(k)]
        truths = [True, False] if bool in (kind, *get_args(kind)) else []
        choices[name] = [*words, *truths, *NUMBERS.get(name, ())]
    return {name: values for name, values in choices.items() if values}


@st.composite
def estimator(draw: st.DrawFn, cls: type[Estimator], **fixed: Any) -> Estimator:
    """Draw an estimator with random options; ``fixed`` ones stay. Options that exclude each other are not drawn."""
    chosen = {k: draw(st.sampled_from(v)) for k, v in sorted(options(cls).items())}
    known = {k: v for k, v in fixed.items() if k in settings_of(cls)}
    try:
        return cls(**chosen | known)
    except UserError:
        reject()
