"""The contract of all estimators, with all options. Each check takes the class of an estimator."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bepo.core.batch import RolloutBatch
from bepo.credit import Estimator
from bepo.testing.strategies import estimator, rollouts

DEGENERATE = {
    "one transition": [("a", "end", 10.0, "success")],
    "one-step trajectories": [
        ("a", "end", 10.0, "success"),
        ("a", "end", 0.0, "failure"),
        ("a", "x", 0.0, "truncation"),
    ],
    "all failed": [(f"s{k}", "x", -0.1, "failure") for k in range(10)],
    "all equal": [("a", "x", 10 * 0.95**7, "success")] * 17,
}
"""Groups of trajectories of one step each: state, next state, reward and end."""


def separate(cls: type[Estimator]) -> st.SearchStrategy[Estimator]:
    """Draw options, except those that mix the groups of an update by design."""
    return estimator(cls, whiten=False, variant="progress", progress=0.0, state_scope="group", temperature=0.0)


def advantages(chosen: Estimator, rows: list[dict[str, Any]]) -> np.ndarray:
    """Return the advantages in the order of ``rows``."""
    batch = RolloutBatch.from_rows(rows)
    out = np.empty(len(rows))
    out[batch.row] = chosen(batch).advantage
    return out


def check_metadata(cls: type[Estimator]) -> None:
    """It names itself, its version and its source, and has a docstring and all traits."""
    assert cls().name == cls.name
    assert cls.method_version >= 1 and cls.citation and isinstance(cls.reconstruction, bool)
    assert cls.__doc__
    assert set(cls.traits) == {"needs", "step_credit", "temporal", "mixing"} and all(cls.traits.values())


@settings(deadline=None)
@given(rows=rollouts(), data=st.data())
def check_finite_float64_and_input_untouched(cls: type[Estimator], rows: Any, data: Any) -> None:
    """N transitions give N finite float64 advantages, finite terms and metrics; the batch stays as it is."""
    batch = RolloutBatch.from_rows(rows)
    before = copy.deepcopy(batch)
    credit = data.draw(estimator(cls))(batch)
    assert batch.tokens is not None
    assert credit.advantage.shape == (len(rows),) and credit.advantage.dtype == np.float64
    assert np.isfinite(credit.advantage).all()
    assert all(np.isfinite(term).all() and term.shape == (len(rows),) for term in credit.terms.values())
    assert all(isinstance(v, float) and v == v for v in credit.metrics.values())
    for token_level in (credit.token_advantage, credit.token_return):
        assert token_level is None or token_level.shape == (len(batch.tokens.logprob),)
        assert token_level is None or np.isfinite(token_level).all()
    for field in ("state", "reward", "terminal", "valid"):
        np.testing.assert_array_equal(getattr(batch, field), getattr(before, field))


@settings(deadline=None)
@given(rows=rollouts(), data=st.data())
def check_order_of_trajectories_and_names_do_not_matter(cls: type[Estimator], rows: Any, data: Any) -> None:
    """Advantages follow their rows into another order, and do not depend on how states are named."""
    chosen = data.draw(separate(cls))
    base = advantages(chosen, rows)
    order = data.draw(st.permutations(range(len(rows))))
    np.testing.assert_allclose(advantages(chosen, [rows[i] for i in order]), base[order], atol=1e-9)
    keys = sorted({key for row in rows for key in (row["obs"], row["next"])})
    other = dict(zip(keys, data.draw(st.permutations(keys))))
    renamed = [
        row | {"obs": other[row["obs"]], "next": other[row["next"]], "uid": (row["uid"],), "traj": f"#{row['traj']}"}
        for row in rows
    ]
    np.testing.assert_allclose(advantages(chosen, renamed), base, atol=1e-9)


@settings(deadline=None)
@given(rows=rollouts(max_groups=3), data=st.data())
def check_groups_do_not_influence_each_other(cls: type[Estimator], rows: Any, data: Any) -> None:
    """A group alone has the advantages that it has among others, unless ``mixes_groups`` says otherwise."""
    chosen = data.draw(separate(cls))
    if chosen.mixes_groups:
        return
    together = advantages(chosen, rows)
    # Bit for bit, unless a linear system is solved: factorising all groups together orders sums differently.
    rounding = 1e-12 if chosen.solves else 0.0
    for uid in {r["uid"] for r in rows}:
        mine = [i for i, r in enumerate(rows) if r["uid"] == uid]
        np.testing.assert_allclose(advantages(chosen, [rows[i] for i in mine]), together[mine], rtol=0, atol=rounding)


@settings(deadline=None)
@given(shape=st.sampled_from(sorted(DEGENERATE)), data=st.data())
def check_degenerate_groups(cls: type[Estimator], shape: str, data: Any) -> None:
    """Tiny and uniform groups give finite advantages, and exact zeros where nothing can be learnt."""
    rows = [
        {"uid": 0, "traj": k, "t": 0, "obs": s, "next": n, "r": r, "done": end, "valid": True}
        | {"prompt_ids": [0], "response_ids": [1], "logprobs": [0.0], "values": [0.5], "expert_steps": 1.0}
        | {"action": "go", "entropy": 0.5, "energy": 0.25, "continuation": r}
        | {"next_expert_steps": 0.0 if end == "success" else math.nan}
        for k, (s, n, r, end) in enumerate(DEGENERATE[shape])
    ]
    advantage = advantages(data.draw(estimator(cls)), rows)
    assert np.isfinite(advantage).all()
    if shape in ("all failed", "all equal") and not cls.needs_critic:
        assert not advantage.any()  # rounding must not invent a signal
