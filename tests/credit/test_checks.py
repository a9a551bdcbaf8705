"""An estimator's class attributes and outputs are checked before training."""

import copy
import json
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError
from bepo.core.registry import Registry
from bepo.credit import Credit, Estimator, Traits, guarded
from bepo.credit._audit import audit
from bepo.credit.grpo import GRPO
from bepo.runs.metrics import OF_ADVANTAGES, credit_metrics


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
    assert Credit(np.array([5.0, 7.0, 8.0]), terms={"a": ones}).of_tokens(lengths).tolist() == [5, 5, 7, 8]
    for wrong, message in (
        (Credit(ones[:2]), r"advantage has shape \(2,\), must be \(3,\)"),
        (Credit(np.ones((3, 1))), r"advantage has shape \(3, 1\), must be \(3,\)"),
        (Credit(ones, token_advantage=ones), r"token_advantage has shape \(3,\), must be \(4,\)"),
        (Credit([1.0] * 3), "advantage is a list, must be a numpy array of numbers"),  # pyright: ignore[reportArgumentType]
        (Credit(ones, terms={"a": ones[:2]}), r"terms\['a'\] has shape \(2,\), must be \(3,\)"),
        (Credit(ones, token_return=ones), r"token_return has shape \(3,\), must be \(4,\)"),
        (Credit(ones, metrics={"a": "b"}), r"metrics\['a'\] is 'b', must be a number"),  # pyright: ignore[reportArgumentType]
    ):
        with pytest.raises(UserError, match=message):
            wrong.of_tokens(lengths)


def test_numpy_numbers_among_metrics_become_plain_ones():
    """np.float32 and np.int64 cannot be written as JSON."""
    plain = {
        "a": np.float32(0.5),
        "b": np.int64(3),
        "c": 2,
        "d": Fraction(1, 4),
        "e": np.longdouble(1),
        "f": np.ones(1),
    }
    row = credit_metrics(Credit(np.ones(3), metrics=plain))
    assert json.loads(json.dumps(row)) == {
        "credit/advantage_mean": 1.0,
        "credit/advantage_std": 0.0,
        "credit/a": 0.5,
        "credit/b": 3,
        "credit/c": 2,
        "credit/d": 0.25,
        "credit/e": 1.0,
        "credit/f": 1.0,
    }


def rollouts():
    rows = [
        {"uid": 0, "traj": k, "t": t, "obs": f"s{t}", "next": f"s{t + 1}", "r": float(k * t), "valid": True}
        | {"done": "failure" if t else None, "action": "go", "task_score": 0.5, "entropy": 0.5}
        | {"prompt_ids": [0], "response_ids": [1, 2], "logprobs": [0.0, 0.0], "values": [0.5, 0.5]}
        for k in range(3)
        for t in range(2)
    ]
    return RolloutBatch.from_rows(rows)


def of(function):
    """Return an estimator that calls a function with the batch."""

    class Odd(GRPO):
        def __call__(self, batch):
            return function(batch) or super().__call__(batch)

    return Odd()


def written(batch):
    return batch.to_bytes()


@pytest.mark.parametrize(
    "change",
    [
        lambda batch: batch.reward.__isub__(7.0),
        lambda batch: batch.valid.fill(False),
        lambda batch: batch.task_score.sort(),
        lambda batch: batch.broken.__setitem__(0, True),
        lambda batch: batch.extras["entropy"].fill(0),
        lambda batch: batch.language.value.fill(0),
        lambda batch: batch.language.ids.__setitem__(0, 5),
    ],
)
def test_an_estimator_that_changes_the_rollouts_is_refused(change):
    batch = rollouts()
    before = written(batch)
    with pytest.raises(UserError, match=r"credit=grpo: it changes the rollouts .*read-only.*; copy an array"):
        of(lambda given: change(given) and None).credit_of(batch)
    assert written(batch) == before


def test_an_estimator_cannot_end_the_program():
    """The command would end with its exit status, 0 without a run for ``sys.exit(0)``."""
    with pytest.raises(UserError, match=r"^credit=grpo: it ended the program \(SystemExit\(0\)\)$"):
        of(lambda batch: exit(0)).credit_of(rollouts())


def test_what_an_estimator_assigns_stays_its_own():
    def assign(batch):
        batch.reward = batch.reward - 7
        batch.valid, batch.tokens.value = ~batch.valid, np.zeros(12)
        batch.extras["entropy"] = batch.extras["more"] = np.zeros(6)
        batch.state_key.append("more")
        batch.task[0] = "another"
        np.add.at(batch.language.ids, 0, 9)  # writes to read-only arrays

    batch, same = rollouts(), rollouts()
    before = written(batch)
    np.testing.assert_array_equal(of(assign).credit_of(batch).advantage, GRPO().credit_of(same).advantage)
    assert written(batch) == before and batch.state_key == same.state_key


def test_the_arrays_of_an_estimator_do_not_change_later():
    kept = np.ones(6)
    credit = of(lambda batch: Credit(kept, terms={"a": kept})).credit_of(rollouts())
    kept[:] = 2
    assert credit.advantage.sum() == 6 and credit.terms["a"].sum() == 6


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "longdouble", "int8", "uint16", "int64"])
def test_every_real_kind_becomes_float64(kind):
    values = np.arange(6).astype(kind)
    found = of(lambda batch: Credit(values, {"a": values}, token_advantage=np.repeat(values, 2))).credit_of(rollouts())
    assert found.token_advantage is not None
    for array in (found.advantage, found.terms["a"], found.token_advantage[::2]):
        assert array.dtype == np.float64 and array.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "values, kind",
    [
        (np.arange(6) + 1j, "complex128 array"),
        (np.ma.masked_array(np.arange(6.0), mask=[True, *[False] * 5]), "masked float64 array"),
        (np.ones(6, bool), "bool array"),
        (np.ones(6, object), "object array"),
        (np.ones(6, "m8[s]"), "timedelta64.s. array"),
        (np.array("1"), "<U1 array"),
    ],
)
@pytest.mark.parametrize("place", ["advantage", "terms", "token_advantage", "token_return"])
def test_other_kinds_are_refused_everywhere(values, kind, place):
    credit = Credit(np.ones(6))
    setattr(credit, place, {"a": values} if place == "terms" else values)
    with pytest.raises(UserError, match=rf"the estimator's {place}.* is a {kind}, must be a numpy array of numbers"):
        of(lambda batch: credit).credit_of(rollouts())


@pytest.mark.parametrize(
    "credit, problem",
    [
        (Credit(np.ones(6), metrics={"a": np.ma.masked}), r"metrics\['a'\] is masked, must be a number"),
        (Credit(np.ones(6), metrics={"a": np.complex64(1)}), "must be a number"),
        (Credit(np.ones(6), metrics={"a": 10**400}), "must be a number"),
        (Credit(np.ones(6), metrics={"a": np.ones(2)}), "must be a number"),
        (Credit(np.ones(6), metrics={1: 2.0}), "have the name 1, must be a text"),  # pyright: ignore
        (Credit(np.ones(6), terms={"advantage": np.zeros(6)}), "has the name of the advantage"),
        (Credit(np.ones(6), gate=np.ones(9)), r"gate has shape \(9,\), must be \(3,\)"),
        ("text", "must return bepo.credit.Credit, not str"),
    ],
)
def test_odd_results_are_refused(credit, problem):
    with pytest.raises(UserError, match=problem):
        of(lambda batch: credit).credit_of(rollouts())


@pytest.mark.parametrize("name", ["zero_advantage_transitions", "advantage_mean", "token_advantage_mean"])
def test_a_metric_cannot_replace_one_of_ours(name):
    batch = rollouts()
    taken = {*audit(batch, GRPO().credit_of(batch)), *OF_ADVANTAGES}
    with pytest.raises(UserError, match=f"credit=grpo: its '{name}' has the name of a number of bepo; rename it"):
        GRPO().refuse_names({name: 1.0, "own": 2.0}, taken)
    assert {f"credit/{one}" for one in OF_ADVANTAGES[:2]} == {*credit_metrics(Credit(np.ones(3)))}


def test_a_copy_for_others_is_equal():
    batch = rollouts()
    assert written(guarded(batch)) == written(batch) == written(copy.deepcopy(batch))
