import numpy as np
import pytest
from hypothesis import given

from bepo.errors import UserError
from bepo.rollout import RolloutGroup, Terminal

from .strategies import rollouts

ROW = {"uid": 0, "traj": 0, "t": 0, "obs": "a", "next": "b", "r": 1.0, "done": "success", "valid": True}


@given(rows=rollouts(max_groups=3))
def test_invariants(rows):
    group = RolloutGroup.from_rows(rows)
    assert len(group) == len(rows)
    assert group.n_groups == len({r["uid"] for r in rows})
    assert group.n_trajectories == len({(r["uid"], r["traj"]) for r in rows})
    assert (group.state_group[group.state] == group.group).all()  # groups share no state id
    assert (group.state_group[group.next_state] == group.group).all()
    keys = np.array(group.state_key)
    assert keys[group.state].tolist() == [rows[i]["obs"] for i in group.row]
    inner = group.terminal == Terminal.NONE
    assert (group.successor[inner] >= 0).all() and (group.successor[~inner] == -group.terminal[~inner]).all()


@given(rows=rollouts(max_groups=3))
def test_concat_of_single_groups_is_the_whole(rows):
    whole = RolloutGroup.from_rows(rows)
    parts = [
        RolloutGroup.from_rows([r for r in rows if r["uid"] == uid]) for uid in dict.fromkeys(r["uid"] for r in rows)
    ]
    joined = RolloutGroup.concat(parts)
    for name in ("group", "trajectory", "step", "state", "next_state", "terminal", "reward", "score", "state_group"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name))
    assert joined.task == whole.task and joined.state_key == whole.state_key


def test_save_and_load(tmp_path):
    tokens = {"prompt_ids": [1, 2, 3], "response_ids": [4, 5], "logprobs": [-0.5, -0.25], "allowed": [[4, 6], [5]]}
    other = {"prompt_ids": [1], "response_ids": [7], "logprobs": [-1.0], "allowed": [[7]]}
    rows = [ROW | tokens | {"task": "mug"}, ROW | {"traj": 1, "done": "failure", "score": 0.5} | other]
    group = RolloutGroup.from_rows(rows)
    group.save(tmp_path / "g.npz")
    again = RolloutGroup.load(tmp_path / "g.npz")
    for name in ("group", "state", "successor", "reward", "valid", "score", "success"):
        np.testing.assert_array_equal(getattr(again, name), getattr(group, name))
    assert again.task == ["mug"] and again.state_key == ["a", "b"]
    assert again.tokens.prompt(0).tolist() == [1, 2, 3] and again.tokens.response(0).tolist() == [4, 5]
    assert again.tokens.response(1).tolist() == [7] and again.tokens.allowed_ids.tolist() == [4, 6, 5, 7]
    assert again.score.tolist() == [1.0, 0.5]


@pytest.mark.parametrize("content", [b"", b"not a zip", 99, 1])
def test_a_file_that_is_no_group_is_one_clear_error(tmp_path, content):
    path = tmp_path / "g.npz"
    if isinstance(content, int):
        np.savez(path, format_version=np.int64(content))
    else:
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"g\.npz"):
        RolloutGroup.load(path)


def test_missing_file_and_empty_group(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        RolloutGroup.load(tmp_path / "nothing.npz")
    with pytest.raises(UserError, match="at least one record"):
        RolloutGroup.from_rows([])


def test_steps_must_count_up_and_ends_must_be_known():
    for steps in ((0, 0), (0, 2), (1, 2)):
        with pytest.raises(UserError, match=r"step \d of trajectory 0, not \d"):
            RolloutGroup.from_rows([ROW | {"t": steps[0], "done": None}, ROW | {"t": steps[1]}])
    with pytest.raises(UserError, match=r"'timeout'; choices: failure, success, truncation"):
        RolloutGroup.from_rows([ROW | {"done": "timeout"}])


@pytest.mark.parametrize("rows", [[ROW | {"done": None}], [ROW, ROW | {"t": 1}]])
def test_trajectories_must_end_exactly_once(rows):
    with pytest.raises(UserError, match="success, failure, truncation"):
        RolloutGroup.from_rows(rows)
