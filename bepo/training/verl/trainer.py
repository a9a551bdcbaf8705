"""verl's synchronous trainer as separate stages, which ``VerlEngine`` calls."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from functools import cached_property, partial
from typing import Any

import numpy as np
import ray
import torch
import transfer_queue as tq
from omegaconf import DictConfig, open_dict
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.trainer.ppo.v1 import AgentLoopManagerTQ, PPOTrainerSync
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.utils.padding import response_from_nested

from bepo.losses import Loss
from bepo.training import Optimisation
from bepo.training.minibatches import minibatches
from bepo.training.verl.losses import actor_loss, value_loss
from bepo.training.verl.steps import order_of_rows, responses_of_steps, rows_of_a_batch

Credit = dict[str, tuple[torch.Tensor, torch.Tensor]]
"""Advantages and value targets of a transition's response tokens, shape (r,) each, by the transition's key."""

_PARTITION = "train"
_CHECK_SECONDS = 5.0  # between checks that the processes of episodes are alive
_POLL_SECONDS = 0.1  # between checks for finished episodes; verl's 2.0 would dominate small runs


class StagedTrainer(PPOTrainerSync):
    """verl's trainer without its loop: the caller runs the stages.

    Other differences from verl's trainer: tasks are arguments (no data loader), minibatches are those of backend=local,
    the caller computes advantages, and the losses are bepo's. It keeps no batch: every stage takes a batch and returns
    its results.

    ``config.trainer.v1.trainer_mode`` stays "sync", because verl compares that string in many places.
    """

    def __init__(self, config: DictConfig, loss: Loss, training: Optimisation) -> None:
        super().__init__(config)
        self.loss, self.training = loss, training
        self.replay_buffer.poll_interval = _POLL_SECONDS
        self.replay_buffer._wait_for_next_poll = self._wait_for_episodes
        self._checked = time.monotonic()
        self.global_steps = 0

    def start(self) -> None:
        """Start the processes for training, generation and episodes."""
        self.init()
        actor = omega_conf_to_dataclass(self.config.actor_rollout_ref.actor)
        self.actor_rollout_wg.set_loss_fn(partial(actor_loss, loss=self.loss, config=actor))
        if self.use_critic:
            critic = omega_conf_to_dataclass(self.config.critic)
            self.critic_wg.set_loss_fn(partial(value_loss, config=critic))
        self.agent_loop_manager = AgentLoopManagerTQ.create(
            config=self.config, llm_client=self.get_llm_client(), teacher_client=None, reward_loop_worker_handles=None
        )

    def on_init_end(self) -> None:
        """Do nothing: the engine sends weights to vLLM before the first episodes, after a checkpoint is loaded."""

    def _init_dataloader(self) -> None:
        """Set the length of the optimisers' schedules. A data loader is not needed, because tasks are arguments."""
        with open_dict(self.config):
            for optim in (self.config.actor_rollout_ref.actor.optim, self.config.critic.optim):
                optim.total_training_steps = self.config.trainer.total_training_steps

    # --- stages --------------------------------------------------------------------------------------------

    def push_weights(self) -> None:
        """Send the current weights to vLLM."""
        self.checkpoint_manager.update_weights(self.global_steps)

    def roll_out(self, n_tasks: int, group_size: int, **columns: Any) -> KVBatchMeta:
        """Run ``group_size`` episodes of each of ``n_tasks`` tasks, and return the handle of their transitions.

        Every episode gets ``columns``, and the number of its task in the column ``index``.
        """
        uids = [uuid.uuid4().hex for _ in range(n_tasks)]
        fields = {name: _column([value] * n_tasks) for name, value in columns.items()}
        fields |= {
            "uid": _column(uids),
            "index": _column(list(range(n_tasks))),
            "__rollout_n__": _column([group_size] * n_tasks),
        }
        prompts = tu.get_tensordict(fields)
        tu.assign_non_tensor_data(prompts, "global_steps", self.global_steps)
        tags = [{"is_prompt": True, "status": "pending", "global_steps": self.global_steps}] * n_tasks
        tq.kv_batch_put(keys=uids, partition_id=_PARTITION, tags=tags)
        self.agent_loop_manager.generate_sequences(prompts)
        batch, _ = self.replay_buffer.sample(
            global_steps=self.global_steps, partition_id=_PARTITION, batch_size=n_tasks
        )
        return batch

    def join(self, batches: Sequence[KVBatchMeta], keys: Sequence[str]) -> KVBatchMeta:
        """Return the transitions with these keys as one batch, and delete the others from TransferQueue."""
        kept = set(keys)
        for batch in batches:
            if dropped := [key for key in batch.keys if key not in kept]:
                tq.kv_clear(keys=dropped, partition_id=batch.partition_id)
        rows = [(key, tag) for batch in batches for key, tag in zip(batch.keys, batch.tags) if key in kept]
        first = batches[0]
        of_rows = [list(column) for column in zip(*rows)]
        return KVBatchMeta(*of_rows, first.partition_id, first.fields, first.extra_info)

    def _wait_for_episodes(self, partition_id: str, last_debug_time: float) -> float:
        """Wait a moment, and raise Ray's error if a process of episodes has died; verl would wait for ever."""
        time.sleep(_POLL_SECONDS)
        if time.monotonic() - self._checked > _CHECK_SECONDS:
            self._checked = time.monotonic()
            alive = [worker.__ray_ready__.remote() for worker in self.agent_loop_manager.agent_loop_workers]
            with suppress(ray.exceptions.GetTimeoutError):  # the process is busy, not dead
                ray.get(alive, timeout=_CHECK_SECONDS)
        return last_debug_time

    def compute_log_probs(
        self, batch: KVBatchMeta, energies: bool
    ) -> tuple[KVBatchMeta, dict[str, float], dict[str, float]]:
        """Compute log-probabilities under the policy and the reference, and values if there is a critic.

        With ``energies`` the batch also gets the field ``energy`` of ``RolloutBatch``; verl's fused kernels cannot
        compute it. Returns the batch with rows of padding, seconds by stage, and verl's metrics.
        """
        self.checkpoint_manager.sleep_replicas()  # free vLLM's memory for training
        metrics: dict[str, float] = {}
        seconds: dict[str, float] = {}
        batch.extra_info["temperature"] = self.config.actor_rollout_ref.rollout.temperature
        rows = rows_of_a_batch(len(batch), self.training.minibatch_size, self._n_ranks)
        batch = upsample_batch_to_divisible_size(batch, rows, self.tokenizer.eos_token_id)
        batch = self._balance_batch(batch, metrics)
        batch.extra_info["calculate_sum_pi_squared"] = energies
        with _timed(seconds, "old_logprob"):
            batch = self._compute_old_log_prob(batch, metrics)
        if energies:
            _store_energies(batch)
        batch.extra_info["calculate_sum_pi_squared"] = False
        if self.use_reference_policy:
            with _timed(seconds, "reference"):
                batch = self._compute_ref_log_prob(batch, metrics)
        if self.use_critic:
            with _timed(seconds, "values"):
                batch = self._compute_values(batch, metrics)
        return batch, seconds, metrics

    def update(self, batch: KVBatchMeta, credit: Credit, seed: int) -> dict[str, float]:
        """Update critic and actor on a batch of ``compute_log_probs``, and return verl's metrics.

        ``credit`` has an entry for every transition, without padding, in the order of the transitions. ``seed``
        determines the minibatches, as on all backends. Metrics are means over the epochs.
        """
        batch = _store_credit(batch, credit)
        of_epochs: list[dict[str, float]] = []
        for epoch in range(self.training.epochs):
            metrics: dict[str, float] = {}
            ordered = self._in_steps(batch, list(credit), seed, epoch)
            if self.use_critic:
                self._update_critic(ordered, metrics)
            self._update_actor(ordered, metrics)
            of_epochs.append(metrics)
        self.global_steps += 1
        return {name: float(np.mean([metrics[name] for metrics in of_epochs])) for name in of_epochs[0]}

    def clear(self, batch: KVBatchMeta) -> None:
        """Delete the batch from TransferQueue."""
        tq.kv_clear(keys=batch.keys, partition_id=batch.partition_id)

    @cached_property
    def _n_ranks(self) -> int:
        """The number of data-parallel ranks."""
        return max(self.actor_rollout_wg._query_dispatch_info("actor")) + 1

    def _get_required_batch_multiple(self, dp_size: int) -> int:
        """Return the multiple to which verl pads a batch; ``compute_log_probs`` has padded it to whole steps."""
        return dp_size

    def _in_steps(self, batch: KVBatchMeta, keys: Sequence[str], seed: int, epoch: int) -> KVBatchMeta:
        """Return the batch in the order in which verl makes the steps of an epoch, and set their size in verl."""
        steps = list(minibatches(len(keys), self.training.minibatch_size, seed, epoch))
        with open_dict(self.config):
            for part in (self.config.actor_rollout_ref.actor, self.config.critic):
                part.ppo_mini_batch_size = len(batch) // len(steps)
        ordered = copy(batch)
        ordered.reorder(order_of_rows(batch, keys, steps, self._n_ranks))
        sizes = responses_of_steps([len(step) for step in steps], len(batch), self._n_ranks)
        fields = TensorDict({"responses_of_step": torch.from_numpy(sizes)}, batch_size=len(batch))
        return tq.kv_batch_put(keys=ordered.keys, partition_id=ordered.partition_id, fields=fields)

    # --- checkpoints ---------------------------------------------------------------------------------------

    def save(self, folder: str) -> None:
        """Write ``actor/``, and ``critic/`` if there is a critic, in verl's format."""
        self.actor_rollout_wg.save_checkpoint(f"{folder}/actor", None, self.global_steps)
        if self.use_critic:
            self.critic_wg.save_checkpoint(f"{folder}/critic", None, self.global_steps)

    def load(self, folder: str, update: int) -> None:
        """Restore the checkpoint that ``save`` wrote after ``update`` updates."""
        self.global_steps = update
        self.actor_rollout_wg.load_checkpoint(local_path=f"{folder}/actor", del_local_after_load=False)
        if self.use_critic:
            self.critic_wg.load_checkpoint(local_path=f"{folder}/critic", del_local_after_load=False)


def read(batch: KVBatchMeta, *fields: str) -> list[dict[str, Any]]:
    """Read fields of a batch from TransferQueue, and return one dict for each transition."""
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=list(fields))
    columns = [map(tu.unwrap_non_tensor_data, data[name]) for name in fields]
    return [dict(zip(fields, row)) for row in zip(*columns)]


def _store_energies(batch: KVBatchMeta) -> None:
    """Write into TransferQueue 1 - 2 p + the sum of squared probabilities, summed over the tokens of each response."""
    fields = ["sum_pi_squared", "old_log_probs", "response_mask"]
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
    squares = response_from_nested(data["sum_pi_squared"], data["response_mask"])
    rows = zip(squares.unbind(), data["old_log_probs"].unbind(), strict=True)
    energy = torch.stack([(1 - 2 * chosen.exp() + square).sum() for square, chosen in rows])
    column = TensorDict({"energy": energy}, batch_size=len(batch))
    tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=column)


def _store_credit(batch: KVBatchMeta, credit: Credit) -> KVBatchMeta:
    """Write advantages and value targets into TransferQueue; padding rows have one token each, with the value 0."""
    zero = (torch.zeros(1), torch.zeros(1))
    is_padding = [tag.get("is_padding", False) for tag in batch.tags]
    rows = [zero if padding else credit[key] for key, padding in zip(batch.keys, is_padding)]
    advantages, returns = (torch.nested.as_nested_tensor(list(x), layout=torch.jagged) for x in zip(*rows))
    fields = TensorDict({"advantages": advantages, "returns": returns}, batch_size=len(batch))
    return tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)


def _column(values: list) -> np.ndarray:
    """Return the values as an object array, shape (n,)."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    """Store the duration of the block in ``seconds[name]``."""
    start = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - start
