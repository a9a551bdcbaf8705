import numpy as np
import pytest
from hypothesis import given

from bepo.core.batch import RolloutBatch, Terminal
from bepo.core.errors import UserError
from bepo.testing.strategies import rollouts

ROW = {"uid": 0, "traj": 0, "t": 0, "obs": "a", "next": "b", "r": 1.0, "done": "success", "valid": True}


@given(rows=rollouts(max_groups=3))
def test_invariants(rows):
    batch = RolloutBatch.from_rows(rows)
    assert len(batch) == len(rows)
    assert batch.n_groups == len({r["uid"] for r in rows})
    assert batch.n_trajectories == len({(r["uid"], r["traj"]) for r in rows})
    assert (batch.state_group[batch.state] == batch.group).all()  # groups share no state id
    assert (batch.state_group[batch.next_state] == batch.group).all()
    keys = np.array(batch.state_key)
    assert keys[batch.state].tolist() == [rows[i]["obs"] for i in batch.row]
    inner = batch.terminal == Terminal.NONE
    assert (batch.successor[inner] >= 0).all() and (batch.successor[~inner] == -batch.terminal[~inner]).all()


@given(rows=rollouts(max_groups=3))
def test_concat_of_single_groups_is_the_whole(rows):
    whole = RolloutBatch.from_rows(rows)
    parts = [
        RolloutBatch.from_rows([r for r in rows if r["uid"] == uid]) for uid in dict.fromkeys(r["uid"] for r in rows)
    ]
    joined = RolloutBatch.concat(parts)
    names = "group trajectory step state next_state terminal reward task_score state_group"
    for name in names.split():
        np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name))
    assert joined.task == whole.task and joined.state_key == whole.state_key


def test_save_and_load(tmp_path):
    tokens = {"prompt_ids": [1, 2, 3], "response_ids": [4, 5], "logprobs": [-0.5, -0.25], "allowed": [[4, 6], [5]]}
    other = {"prompt_ids": [1], "response_ids": [7], "logprobs": [-1.0], "allowed": [[7]]}
    rows = [ROW | tokens | {"task": "mug"}, ROW | {"traj": 1, "done": "failure", "task_score": 0.5} | other]
    batch = RolloutBatch.from_rows(rows)
    batch.save(tmp_path / "g.npz")
    again = RolloutBatch.load(tmp_path / "g.npz")
    for name in ("group", "state", "successor", "reward", "valid", "task_score", "success"):
        np.testing.assert_array_equal(getattr(again, name), getattr(batch, name))
    assert again.task == ["mug"] and again.state_key == ["a", "b"]
    assert again.tokens.prompt(0).tolist() == [1, 2, 3] and again.tokens.response(0).tolist() == [4, 5]
    assert again.tokens.response(1).tolist() == [7] and again.tokens.allowed_ids.tolist() == [4, 6, 5, 7]
    assert again.task_score.tolist() == [1.0, 0.5]


@pytest.mark.parametrize("content", [b"", b"not a zip", 99, 1])
def test_a_file_that_is_no_group_is_one_clear_error(tmp_path, content):
    path = tmp_path / "g.npz"
    if isinstance(content, int):
        np.savez(path, format_version=np.int64(content))
    else:
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"g\.npz"):
        RolloutBatch.load(path)


def test_missing_file_and_empty_group(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        RolloutBatch.load(tmp_path / "nothing.npz")
    with pytest.raises(UserError, match="at least one transition"):
        RolloutBatch.from_rows([])


def test_steps_must_count_up_and_ends_must_be_known():
    for steps in ((0, 0), (0, 2), (1, 2)):
        with pytest.raises(UserError, match=r"step \d of trajectory 0, not \d"):
            RolloutBatch.from_rows([ROW | {"t": steps[0], "done": None}, ROW | {"t": steps[1]}])
    with pytest.raises(UserError, match=r"'timeout'; choices: failure, success, truncation"):
        RolloutBatch.from_rows([ROW | {"done": "timeout"}])


@pytest.mark.parametrize("rows", [[ROW | {"done": None}], [ROW, ROW | {"t": 1}]])
def test_trajectories_must_end_exactly_once(rows):
    with pytest.raises(UserError, match="success, failure, truncation"):
        RolloutBatch.from_rows(rows)


@pytest.mark.parametrize("score", [-0.5, 7, float("nan")])
def test_a_task_score_is_from_zero_to_one(score):
    with pytest.raises(UserError, match=f"trajectory 0: task_score is {score:g}, must be from 0 to 1"):
        RolloutBatch.from_rows([ROW | {"task_score": score}])
