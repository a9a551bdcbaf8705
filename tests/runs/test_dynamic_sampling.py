"""Dynamic sampling: which groups an update trains on, and what a run says about it."""

import numpy as np
import pytest

from bepo.core.batch import RolloutBatch
from bepo.runs.collection import collect_mixed, mixed
from bepo.store.run_files import read_run
from bepo.training.backends import Rollouts, joined
from tests.command import train


def batch(*groups: str, task: int = 0) -> RolloutBatch:
    """Return one group for each word: a trajectory of one step for each letter, s(uccess) or f(ailure)."""
    ends = {"s": "success", "f": "failure"}
    rows = []
    for g, word in enumerate(groups):
        for k, letter in enumerate(word):
            row = {"uid": g, "traj": k, "t": 0, "task": f"{task}/{g}", "obs": "a", "next": "b", "done": ends[letter]}
            # scores that a penalty or a shaped reward has moved, although the outcomes are equal
            rows.append(row | {"r": 10.0 * (letter == "s") - 0.1 * k, "valid": k > 0})
    return RolloutBatch.from_rows(rows)


class Engine:
    """An engine that only joins."""

    def join(self, parts, kept):
        assert len(parts) == len(kept) and all(len(k) == p.batch.n_groups for p, k in zip(parts, kept))
        return Rollouts(joined(parts, kept))


def collected(batches: list[RolloutBatch], n_groups: int, max_batches: int) -> tuple[RolloutBatch, int]:
    rollouts, sampled = collect_mixed(Engine(), lambda i: Rollouts(batches[i]), n_groups, max_batches)
    assert [part.task for part in sampled] == [one.task for one in batches[: len(sampled)]]
    return rollouts.batch, len(sampled)


def test_outcomes_decide_and_not_scores():
    assert mixed(batch("fff", "ffs", "sss", "sff", "s", "f")).tolist() == [False, True, False, True, False, False]


def test_the_first_mixed_groups_of_as_many_batches_as_are_needed():
    batches = [batch("ff", "sf", task=0), batch("fs", "ss", task=1), batch("sf", "fs", task=2), batch("sf", task=3)]
    found, n = collected(batches, n_groups=3, max_batches=9)
    assert found.task == ["0/1", "1/0", "2/0"] and n == 3
    assert mixed(found).all() and found.n_trajectories == 6 and found.success.sum() == 3
    assert collected(batches, n_groups=1, max_batches=9)[0].task == ["0/1"]


def test_the_update_goes_on_with_what_it_has():
    batches = [batch("ff", "sf", task=0), batch("ss", "ss", task=1), batch("sf", task=2)]
    found, n = collected(batches, n_groups=2, max_batches=2)
    assert found.task == ["0/1"] and n == 2
    found, n = collected(batches[1:2] * 2, n_groups=2, max_batches=2)
    assert found.task == ["1/0", "1/1"] and n == 2  # none is mixed: the whole last batch


@pytest.mark.slow
def test_statistics_of_a_run_count_all_episodes(tmp_path):
    """And its first batch of each update has the tasks and draws of a run without dynamic sampling."""
    settings = ("updates=3", "env.dim=5", "env.search_depth=2", "evaluation.seeds=1")
    assert train(tmp_path / "all", *settings, "save_rollouts=1")[0] == 0
    more = ("save_rollouts=1", "rollout.mixed_groups=true", "rollout.max_batches=3")
    code, _, err = train(tmp_path / "mixed", *settings, *more)
    assert code == 0, err
    whole, kept = (read_run(next((tmp_path / name).glob("runs/*"))) for name in ("all", "mixed"))
    assert whole.metadata["identity"]["rollout"].keys().isdisjoint({"mixed_groups", "max_batches"})
    for row in kept.metrics():
        batch = RolloutBatch.load(kept.path / "rollouts" / f"{row['update']:06d}.npz")
        assert row["train/trajectories"] in (6, 12, 18)
        assert batch.n_groups == row["train/kept_groups"] <= 2
        enough = row["train/trajectories"] < 18
        assert mixed(batch).all() or not mixed(batch).any()
        assert not enough or (batch.n_groups == 2 and mixed(batch).all())
    assert any(row["train/trajectories"] > 6 for row in kept.metrics())
    first, filtered = (RolloutBatch.load(run.path / "rollouts" / "000001.npz") for run in (whole, kept))
    usable = [task for task, is_mixed in zip(first.task, mixed(first)) if is_mixed]
    assert filtered.task[: len(usable)] == usable
    for name in ("state_key", "reward"):
        of_first = getattr(first.of_groups(mixed(first)), name) if usable else []
        np.testing.assert_array_equal(getattr(filtered, name)[: len(of_first)], of_first)


@pytest.mark.slow
def test_groups_of_one_cannot_be_mixed(tmp_path):
    code, _, err = train(tmp_path, "rollout.mixed_groups=true", "rollout.group_size=1", "credit=ppo")
    assert code == 2 and "rollout.mixed_groups=true" in err and len(err.strip().splitlines()) == 1
