"""An estimator's class attributes and outputs are checked before training."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

from bepo.core.errors import UserError
from bepo.core.registry import Registry
from bepo.credit import Credit, Estimator, Traits
from bepo.runs.metrics import credit_metrics


@pytest.mark.parametrize(
    "said, message",
    [
        ({"traits": {"nedds": "x"}}, "must be a dictionary of needs, step_credit, temporal, mixing"),
        ({"method_version": -3}, "method_version=-3: must be a whole number, at least 1"),
        ({"colour": "reddish"}, "colour='reddish': must be #RRGGBB, or empty"),
    ],
)
def test_what_an_estimator_says_of_itself_is_checked(said, message):
    traits = {"traits": dict.fromkeys(Traits.__annotations__, "x"), "method_version": 1, "citation": "here"}
    mine = dataclass(type("Mine", (Estimator,), {"__annotations__": {"name": str}, "name": "mine", **traits, **said}))
    with pytest.raises(UserError, match=message):
        Registry("bepo.credit", "credit", "credit estimator").register(mine)


def test_what_an_estimator_returns_is_checked():
    ones, lengths = np.ones(3), np.array([2, 1, 1])
    assert Credit(ones, terms={"a": ones}).of_tokens(lengths).shape == (4,)
    for wrong, message in (
        (Credit([1.0] * 3), "advantage is a list, must be a numpy array of numbers"),  # pyright: ignore[reportArgumentType]
        (Credit(ones, terms={"a": ones[:2]}), r"terms\['a'\] has shape \(2,\), must be \(3,\)"),
        (Credit(ones, token_return=ones), r"token_return has shape \(3,\), must be \(4,\)"),
        (Credit(ones, metrics={"a": "b"}), r"metrics\['a'\] is 'b', must be a number"),  # pyright: ignore[reportArgumentType]
    ):
        with pytest.raises(UserError, match=message):
            wrong.of_tokens(lengths)


def test_numpy_numbers_among_metrics_become_plain_ones():
    """np.float32 and np.int64 cannot be written as JSON."""
    row = credit_metrics(Credit(np.ones(3), metrics={"a": np.float32(0.5), "b": np.int64(3), "c": 2}))
    assert json.loads(json.dumps(row)) == {
        "credit/advantage_mean": 1.0,
        "credit/advantage_std": 0.0,
        "credit/a": 0.5,
        "credit/b": 3,
        "credit/c": 2,
    }
