"""Orders a batch so that verl makes the optimiser steps of backend=local, with equal shares for its ranks.

verl divides a batch into one contiguous part per rank, and each part (without shuffling) into steps with equal numbers
of rows. A step of n transitions is therefore padded with masked rows. The ranks' shares of a step are at the same
position in their parts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int
from transfer_queue import KVBatchMeta
from verl.utils.seqlen_balancing import calculate_workload, get_seqlen_balanced_partitions


def rows_of_a_step(n_transitions: int, minibatch_size: int, n_ranks: int) -> int:
    """Return the number of rows of each step, padding included: a multiple of the number of ranks."""
    return math.ceil(min(minibatch_size, n_transitions) / n_ranks) * n_ranks


def rows_of_a_batch(n_transitions: int, minibatch_size: int, n_ranks: int) -> int:
    """Return the number of rows of all steps of an epoch, padding included."""
    steps = math.ceil(n_transitions / minibatch_size)
    return steps * rows_of_a_step(n_transitions, minibatch_size, n_ranks)


def order_of_rows(
    batch: KVBatchMeta, keys: Sequence[str], steps: Sequence[Int[np.ndarray, " m"]], n_ranks: int
) -> list[int]:
    """Return the order of the batch's rows in which verl makes ``steps``.

    ``keys`` are the keys of the transitions; each step has indices of them. The batch has these transitions and
    padding, in any order. The ranks' shares of a step have similar costs.
    """
    rows = len(batch) // len(steps)
    place = {key: i for i, key in enumerate(batch.keys)}
    padding = [i for i, tag in enumerate(batch.tags) if tag.get("is_padding", False)]
    cost = calculate_workload(torch.tensor([tag["seq_len"] for tag in batch.tags])).tolist()
    shares: list[list[int]] = [[] for _ in range(n_ranks)]
    for step in steps:
        members = [place[keys[i]] for i in step]
        members += [padding.pop() for _ in range(rows - len(members))]
        parts = get_seqlen_balanced_partitions([cost[i] for i in members], n_ranks, equal_size=True)
        for share, part in zip(shares, parts):
            share += [members[i] for i in part]
    return [i for share in shares for i in share]


def responses_of_steps(transitions: Sequence[int], n_rows: int, n_ranks: int) -> Int[np.ndarray, " n"]:
    """Return for each row, in the order of ``order_of_rows``, the number of transitions of its step, without padding.

    ``transitions`` has this number for each step; the steps have equal numbers of rows.
    """
    rows = n_rows // len(transitions) // n_ranks
    return np.tile(np.repeat(np.asarray(transitions), rows), n_ranks)
