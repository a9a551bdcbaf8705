"""The order of a batch for verl: verl's steps are the minibatches of all backends."""

import numpy as np
import pytest
from transfer_queue import KVBatchMeta

from bepo.training.minibatches import minibatches
from bepo.training.verl.steps import order_of_rows, responses_of_steps, rows_of_a_batch


@pytest.mark.parametrize("n, size, ranks", [(10, 4, 1), (10, 4, 2), (25, 5, 2), (50, 5, 2), (3, 256, 2), (17, 4, 4)])
def test_the_steps_of_all_ranks_are_the_minibatches_and_padding(n, size, ranks):
    rows = rows_of_a_batch(n, size, ranks)
    rng = np.random.default_rng(0)
    place = rng.permutation(rows)  # balancing has moved the transitions, and padding is among them
    keys = [f"row {i}" for i in place[:n]]
    tags = [{"seq_len": int(rng.integers(100, 2000)), "is_padding": i not in place[:n]} for i in range(rows)]
    batch = KVBatchMeta(partition_id="train", keys=[f"row {i}" for i in range(rows)], tags=tags)
    steps = list(minibatches(n, size, 7, 0))
    order = np.array(order_of_rows(batch, keys, steps, ranks))
    assert sorted(order) == list(range(rows))
    by_rank = order.reshape(ranks, len(steps), -1)  # as verl cuts it
    sizes = responses_of_steps([len(step) for step in steps], rows, ranks).reshape(by_rank.shape)
    for k, step in enumerate(steps):
        members = [batch.keys[i] for i in by_rank[:, k].ravel() if not tags[i]["is_padding"]]
        assert sorted(members) == sorted(keys[i] for i in step)
        assert (sizes[:, k] == len(step)).all()


def test_a_rows_share_of_a_step_costs_what_the_others_do():
    tags = [{"seq_len": length} for length in (1000, 100, 1000, 100)]
    batch = KVBatchMeta(partition_id="train", keys=list("abcd"), tags=tags)
    order = order_of_rows(batch, list("abcd"), [np.arange(4)], 2)
    assert [{batch.tags[i]["seq_len"] for i in part} for part in (order[:2], order[2:])] == [{1000, 100}] * 2
