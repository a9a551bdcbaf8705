"""Files of rollout batches: both formats, damage, and what is kept of a large batch."""

import io
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError
from bepo.runs.collection import bounded
from bepo.testing.strategies import rollouts


def assert_same(a: RolloutBatch, b: RolloutBatch) -> None:
    for name, value in vars(a).items():
        if name not in ("tokens", "extras") and name in RolloutBatch.__dataclass_fields__:
            np.testing.assert_array_equal(np.asarray(value), np.asarray(getattr(b, name)), err_msg=name)
    assert a.extras.keys() == b.extras.keys()
    for name in a.extras:
        np.testing.assert_array_equal(a.extras[name], b.extras[name], err_msg=name)
    for name in type(a.language).__dataclass_fields__:
        np.testing.assert_array_equal(getattr(a.tokens, name), getattr(b.tokens, name), err_msg=name)


@given(rows=rollouts(max_groups=3), data=st.data())
def test_a_batch_is_read_as_it_was_written(rows, data, tmp_path_factory):
    words = st.sampled_from(("up", "click 3", None))
    rows = [row | {"action": data.draw(words), "entropy": 0.25} for row in rows]
    batch = RolloutBatch.from_rows(rows)
    path = tmp_path_factory.mktemp("batch") / "batch.npz"
    batch.save(path)
    again = RolloutBatch.load(path)
    assert_same(batch, again)
    assert again.actions == [rows[i]["action"] for i in batch.row]
    assert len(set(batch.action_key)) == len(batch.action_key)


@given(rows=rollouts(max_groups=3))
def test_kept_groups_are_those_that_were_joined(rows):
    parts = [
        RolloutBatch.from_rows([row for row in rows if row["uid"] == uid])
        for uid in dict.fromkeys(r["uid"] for r in rows)
    ]
    whole = RolloutBatch.concat(parts)
    for kept in itertools.product((False, True), repeat=len(parts)):
        if any(kept):
            expected = RolloutBatch.concat([part for part, is_kept in zip(parts, kept) if is_kept])
            found = whole.of_groups(np.array(kept))
            assert found.actions == expected.actions
            found.row, found.action, found.action_key = expected.row, expected.action, expected.action_key
            assert_same(expected, found)


def test_a_large_batch_is_cut_after_whole_groups():
    row = {"t": 0, "obs": "a", "next": "b", "r": 1.0, "done": "success", "valid": True, "logprobs": [0.0]}
    rows = [row | {"uid": g, "traj": 0, "prompt_ids": [0] * 9, "response_ids": [1]} for g in range(5)]
    batch = RolloutBatch.from_rows(rows)
    assert [bounded(batch, tokens).n_groups for tokens in (5, 10, 29, 30, 1000)] == [1, 1, 2, 3, 5]


def test_format_1_is_still_read_and_a_changed_file_is_not(tmp_path):
    row = {"uid": 0, "traj": 0, "t": 0, "obs": "a", "next": "b", "r": 1.0, "done": "success", "valid": True}
    batch = RolloutBatch.from_rows([row | {"action": "up", "entropy": 0.5, "energy": 0.2}])
    with np.load(io.BytesIO(batch.to_bytes())) as file:
        arrays = dict(file)
    later = ("action", "action_key", "entropy", "energy")
    old = {name: value for name, value in arrays.items() if name not in ("digest", *later)}
    np.savez(tmp_path / "old.npz", **old | {"format_version": np.int64(1)})
    read = RolloutBatch.load(tmp_path / "old.npz")
    assert read.reward.tolist() == [1.0] and read.actions == [None] and not read.extras
    np.savez(tmp_path / "changed.npz", **arrays | {"reward": np.array([2.0])})
    with pytest.raises(UserError, match="changed since it was written"):
        RolloutBatch.load(tmp_path / "changed.npz")
    np.savez(tmp_path / "new.npz", **arrays | {"format_version": np.int64(3)})
    with pytest.raises(UserError, match="format version 3; this bepo reads 1 and 2"):
        RolloutBatch.load(tmp_path / "new.npz")


def test_a_number_of_a_row_never_replaces_a_field(tmp_path):
    row = {"uid": 0, "traj": 0, "t": 0, "obs": "a", "next": "b", "r": 1.0, "done": "success", "valid": True}
    batch = RolloutBatch.from_rows([row | {"reward": 5.0, "group": 7, "weight": 0.5}])
    batch.save(tmp_path / "batch.npz")
    read = RolloutBatch.load(tmp_path / "batch.npz")
    assert list(read.extras) == ["weight"] and read.reward.tolist() == [1.0] and read.group.tolist() == [0]
    with pytest.raises(UserError, match="extras: reward"):
        batch.with_columns(reward=np.array([5.0]))
