"""The engine of backend=verl: it implements ``bepo.training.backends.Engine`` with verl's stages."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import ray
import torch
import transfer_queue as tq
from jaxtyping import Bool, Float
from omegaconf import OmegaConf
from transfer_queue import KVBatchMeta

from bepo.core.errors import UserError
from bepo.envs import Task
from bepo.policies import ADAPTER_CONFIG
from bepo.policies.lm.adapters import save_merged
from bepo.policies.pretrained import end_ids_of
from bepo.rollouts.collect import Sampling
from bepo.training.backends import Rollouts, Setup, joined
from bepo.training.starting_policy import start_metadata, warm_start_name
from bepo.training.verl import pictures
from bepo.training.verl.devices import find_device
from bepo.training.verl.episodes import TASKS, EpisodeWorkers, Tasks
from bepo.training.verl.lifetime import cpu_seconds
from bepo.training.verl.losses import STATISTIC
from bepo.training.verl.pictures import Pictures
from bepo.training.verl.processes import start_ray
from bepo.training.verl.quiet import Quiet
from bepo.training.verl.session import Session
from bepo.training.verl.settings import compose
from bepo.training.verl.trainer import StagedTrainer, read
from bepo.training.verl.transitions import batch_of, n_restarted
from bepo.training.warm_start import initial_policy

if TYPE_CHECKING:
    from bepo.training.backends.verl import Verl

_METRICS = {  # the local backend's names, and verl's
    "policy_loss": "actor/pg_loss",
    "entropy": "actor/entropy_loss",
    "kl": "actor/kl_loss",
    "grad_norm": "actor/grad_norm",
    "value_loss": "critic/value_loss",
    "critic_grad_norm": "critic/grad_norm",
    "rollout_probability_difference": "training/rollout_probs_diff_max",
    "mean_rollout_probability_difference": "training/rollout_probs_diff_mean",
}

_OF_LOSS = f"actor/{STATISTIC}"


@dataclass(frozen=True)
class StoredBatch:
    """A batch in TransferQueue: its handle, the key of each of its N transitions, and its metrics so far."""

    batch: KVBatchMeta  # has rows of padding after log-probabilities are computed
    keys: list[str]  # (N,) in the order of ``RolloutBatch``
    metrics: dict[str, float]  # verl's metrics, and counts of rows and episodes


class VerlEngine:
    """verl, Ray, vLLM and the environments of a run. Their processes run until ``close``.

    ``Rollouts.remote`` is a ``StoredBatch``. See ``bepo.training.backends.Engine`` for the methods.
    """

    def __init__(self, settings: Verl, setup: Setup, quiet: Quiet) -> None:
        """Start every process. Raises ``UserError`` with one line if a process cannot start."""
        if setup.policy.constrained:
            raise UserError(
                "backend=verl cannot restrict vLLM to admissible actions: policy.constrained=true needs backend=local"
            )
        if setup.needs_critic and setup.policy.reads_pictures:
            raise UserError("backend=verl has no critic that reads pictures; choices: backend=local")
        if seed := setup.policy.lora.seed:
            raise UserError(f"policy.lora.seed={seed}: backend=verl draws adapters without a seed; choices: 0")
        self.settings, self.setup = settings, setup
        self._session = Session(setup.folder, quiet, settings.patience)
        self._vllm_is_current = False  # whether vLLM has the current weights
        try:
            with self._session.stage("start"):
                self._start()
        except BaseException:
            self.close()
            raise
        vllm, _ = find_device(setup.device).vllm
        packages = ("verl", "ray", vllm, "torch", "transformers", "TransferQueue", "numpy", "wandb")
        self.metadata: dict[str, Any] = {
            "backend": "verl",
            "device": setup.device,
            "world_size": settings.world_size,
            "versions": {name: version(name) for name in packages},
            **start_metadata(setup),
        }

    def _start(self) -> None:
        settings, setup = self.settings, self.setup
        config = compose(settings, setup, self._model_path())
        OmegaConf.resolve(config)
        self._session.ray_logs = start_ray(config, settings, setup.device, self._session.mark)
        tq.init(config.transfer_queue)
        self._tasks = ray.remote(Tasks).options(name=TASKS, num_cpus=0.1).remote()
        self._pictures = ray.remote(Pictures).options(name=pictures.NAME, num_cpus=0.1).remote()
        self._workers = EpisodeWorkers.launch(setup.env, setup.agent, settings.env_workers)
        self._trainer = StagedTrainer(config, setup.loss, setup.training)
        self._trainer.start()
        self.end_ids = end_ids_of(config.actor_rollout_ref.model.path, self._trainer.tokenizer)

    def _model_path(self) -> str:
        """Return the path from which verl loads the model.

        Adapters of a trained policy are merged into their weights first. A policy with a warm start, or without
        weights, is built, warm-started and saved first. Adapters of a warm start are merged into the weights, and verl
        trains new ones above them.
        """
        base = self.setup.policy.weights
        if (weights := self.setup.weights) is not None:
            if base is None or not (weights / ADAPTER_CONFIG).exists():
                return str(weights)
            save_merged(base, weights, self._initial_policy)
            return str(self._initial_policy)
        if base is not None and warm_start_name(self.setup) is None:
            return base
        policy = initial_policy(self.setup)
        find_device(self.setup.device).check_model(policy.model.config.get_text_config())
        if base is not None and policy.has_adapters:
            adapters = self._initial_policy.with_name("initial_adapters")
            policy.save(adapters)
            save_merged(base, adapters, self._initial_policy)
        else:
            policy.save(self._initial_policy)
        return str(self._initial_policy)

    @property
    def _initial_policy(self) -> Path:
        return self.setup.folder / "initial_policy"

    def collect(
        self, tasks: Sequence[Task], group_size: int, sampling: Sampling, seed: int, needs: Iterable[str] = ()
    ) -> Rollouts:
        """Run ``group_size`` episodes of each task.

        With ``backend.request_seeds`` each request to vLLM has a separate seed, derived from ``seed``. Other requests
        of the batch then affect a response only through rounding.
        """
        with self._session.stage("rollout"):
            if not self._vllm_is_current:
                self._push_weights()
            ray.get(self._tasks.put.remote(list(tasks)))
            stored = self._trainer.roll_out(
                len(tasks),
                group_size,
                seed=seed,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                top_k=sampling.top_k,
                env_workers=self.settings.env_workers,
                min_pixels=self.setup.policy.smallest_picture,
                needs=",".join(sorted(needs)),
                request_seeds=self.settings.request_seeds,
            )
            transitions = read(stored, "prompts", "responses", "rollout_log_probs", "extra_fields")
        batch = batch_of(transitions, len(tasks) * group_size, self._session.logs)
        keys = [stored.keys[i] for i in batch.row]
        return Rollouts(batch, StoredBatch(stored, keys, {"restarted_episodes": n_restarted(transitions)}))

    def join(self, parts: Sequence[Rollouts], kept: Sequence[Bool[np.ndarray, " G"]]) -> Rollouts:
        """Return one batch with the kept groups of several batches, and delete the others from TransferQueue."""
        stored: list[StoredBatch] = [part.remote for part in parts]
        flags = [of_part[part.batch.group] for part, of_part in zip(parts, kept)]
        keys = [key for item, kept_rows in zip(stored, flags) for key, is_kept in zip(item.keys, kept_rows) if is_kept]
        batch = self._trainer.join([item.batch for item in stored], keys)
        counts = {name: sum(item.metrics[name] for item in stored) for name in stored[0].metrics}
        return Rollouts(joined(parts, kept), StoredBatch(batch, keys, counts))

    def prepare_batch(self, rollouts: Rollouts) -> Rollouts:
        """Return the rollouts with the inputs of verl's losses.

        TransferQueue then holds log-probabilities under the policy and the reference, entropies, and values if there is
        a critic. Entropies, values, and the energies that an estimator needs are also in the batch.
        """
        stored: StoredBatch = rollouts.remote
        energies = "energy" in self.setup.needs
        with self._session.stage("compute_log_probs"):
            padded, seconds, metrics = self._trainer.compute_log_probs(stored.batch, energies)
            metrics = stored.metrics | metrics | {"padding_rows": len(padded) - len(rollouts.batch)}
            remote = replace(stored, batch=padded, metrics=metrics)
            names = ["entropy", *["values"] * self.setup.needs_critic, *["energy"] * energies]
            rows = dict(zip(padded.keys, read(padded, *names)))
        of_batch = [rows[key] for key in stored.keys]
        columns = {"entropy": np.array([float(row["entropy"].mean()) for row in of_batch])}
        if energies:
            columns["energy"] = np.array([float(row["energy"]) for row in of_batch])
        rollouts = Rollouts(rollouts.batch.with_columns(**columns), remote, seconds)
        if not self.setup.needs_critic:
            return rollouts
        return rollouts.with_values(np.concatenate([row["values"].numpy() for row in of_batch]).astype(np.float32))

    def update(
        self,
        rollouts: Rollouts,
        advantage: Float[np.ndarray, " R"],
        seed: int,
        returns: Float[np.ndarray, " R"] | None,
    ) -> dict[str, float]:
        """Update with the minibatches of backend=local, and return statistics averaged over minibatches."""
        stored: StoredBatch = rollouts.remote
        ends = rollouts.batch.language.response_offset[1:-1]
        pieces = [np.split(x.astype(np.float32), ends) for x in (advantage, advantage if returns is None else returns)]
        credit = {key: (torch.from_numpy(a), torch.from_numpy(g)) for key, a, g in zip(stored.keys, *pieces)}
        with self._session.stage("update"):
            metrics = stored.metrics | self._trainer.update(stored.batch, credit, seed)
            self._push_weights()
        return self._statistics(metrics, len(stored.keys))

    def release(self, rollouts: Rollouts) -> None:
        """Delete the rollouts from TransferQueue, and all pictures: only one batch of rollouts is kept at a time."""
        with self._session.stage("clear"):
            self._trainer.clear(rollouts.remote.batch)
            ray.get(self._pictures.clear.remote())

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of this process and of its running child processes."""
        return time.process_time() + cpu_seconds(self._session.mark)

    def save(self, folder: Path) -> None:
        """Write verl's checkpoint. A run's last one also has the policy for transformers, in ``actor/huggingface``."""
        with self._session.stage("save"):
            self._trainer.save(str(folder.absolute()))
        for file in self._initial_policy.glob("tokenizer*.json"):  # verl's copy loses a tiny model's vocabulary
            shutil.copy(file, self.policy_in(folder))

    def policy_in(self, folder: Path) -> Path:
        """Return the policy's folder in a run's last checkpoint."""
        return folder / "actor" / "huggingface"

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of token IDs, special tokens included."""
        return self._trainer.tokenizer.batch_decode([list(row) for row in ids])

    def load(self, folder: Path) -> None:
        """Restore a checkpoint of ``save``; the name of ``folder`` ends with the number of updates.

        Raises ``UserError`` for a checkpoint from another number of devices, because verl writes one file per rank.
        """
        check_ranks(folder, self.settings)
        with self._session.stage("load"):
            self._trainer.load(str(folder.absolute()), int(folder.name.split("-")[1]))
            self._vllm_is_current = False

    def close(self) -> None:
        """End every process of the engine."""
        self._session.close()

    def _push_weights(self) -> None:
        self._vllm_is_current = False
        self._trainer.push_weights()
        self._vllm_is_current = True

    def _statistics(self, metrics: dict[str, float], n_transitions: int) -> dict[str, float]:
        """Return verl's metrics under the local backend's names, and counts that only this backend has."""
        training = self.setup.training
        steps = math.ceil(n_transitions / training.minibatch_size) * training.epochs
        named = {ours: float(metrics[theirs]) for ours, theirs in _METRICS.items() if theirs in metrics}
        of_loss = {name for name in metrics if name.startswith(_OF_LOSS)}
        named |= {name.removeprefix(_OF_LOSS): float(metrics[name]) for name in of_loss}
        counts = {name: metrics[name] for name in ("padding_rows", "restarted_episodes")}
        return {"optimiser_steps": steps, **named, **counts}


def check_ranks(checkpoint: Path, settings: Verl) -> None:
    """Raise ``UserError`` if the number of ranks of a checkpoint differs from that of the settings."""
    ranks = json.loads((checkpoint / "actor" / "fsdp_config.json").read_text(encoding="utf-8"))["world_size"]
    if ranks != settings.world_size:
        raise UserError(
            f"{checkpoint} was written by {ranks} devices, but backend.nodes={settings.nodes} x "
            f"backend.n_gpus={settings.n_gpus} are {settings.world_size}: go on with {ranks}, or remove "
            f"{checkpoint.parent} to start anew"
        )
