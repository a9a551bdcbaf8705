"""The engine of backend=verl: our calls on one side, verl's stages on the other."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import ray
import torch
import transfer_queue as tq
from jaxtyping import Float
from omegaconf import OmegaConf

from bepo.collect import Sampling
from bepo.envs import Task
from bepo.errors import UserError
from bepo.rollout import RolloutGroup
from bepo.training.backend import Setup
from bepo.training.verl import Verl
from bepo.training.verl.episodes import TASKS, EpisodeWorkers, Tasks
from bepo.training.verl.lifetime import Patience, Watchdog, end_processes, marked, shared_memory
from bepo.training.verl.machine import VLLM, check_heads
from bepo.training.verl.processes import explained, start_ray, within
from bepo.training.verl.quiet import Quiet
from bepo.training.verl.settings import compose, optimiser_steps
from bepo.training.verl.trainer import StagedTrainer, read
from bepo.training.warm_start import initial_policy

_GOODBYE = 20.0  # seconds for an orderly end
_NAMES = {  # verl's metrics under the local backend's names
    "policy_loss": "actor/pg_loss",
    "entropy": "actor/entropy_loss",
    "kl": "actor/kl_loss",
    "grad_norm": "actor/grad_norm",
    "clip_fraction": "actor/clip_fraction",
    "ppo_kl": "actor/ppo_kl",
    "value_loss": "critic/value_loss",
    "critic_grad_norm": "critic/grad_norm",
    "rollout_probability_difference": "training/rollout_probs_diff_max",
}


class VerlEngine:
    """Ray and all processes of a run live from here to ``close``."""

    def __init__(self, settings: Verl, setup: Setup, quiet: Quiet) -> None:
        if getattr(setup.policy, "constrained", False):
            raise UserError(
                "backend=verl samples whole responses from vLLM: policy.constrained=true needs backend=local"
            )
        self.settings, self.setup, self._quiet = settings, setup, quiet
        self._mark, self._closed = uuid.uuid4().hex, False
        self._patience, self._watchdog = Patience(settings.patience, self._mark), Watchdog(self._mark)
        self._fresh = False  # does vLLM have the current weights?
        self._batch = None
        self._metrics: dict[str, float] = {}
        try:
            with self._stage("start"):
                self._start()
        except BaseException:
            self.close()
            raise
        packages = ("verl", "ray", VLLM[setup.device][0], "torch", "transformers", "TransferQueue", "numpy", "wandb")
        self.facts: dict[str, Any] = {
            "backend": "verl",
            "device": setup.device,
            "world_size": settings.world_size,
            "versions": {name: version(name) for name in packages},
        }

    def _start(self) -> None:
        settings, setup = self.settings, self.setup
        config = compose(settings, setup, self._model())
        OmegaConf.resolve(config)
        start_ray(config, settings, setup.device, self._mark)
        tq.init(config.transfer_queue)
        self._tasks = ray.remote(Tasks).options(name=TASKS, num_cpus=0.1).remote()
        self._workers = EpisodeWorkers.launch(setup.env, setup.agent, settings.env_workers)
        self.trainer = StagedTrainer(config, optimiser_steps(settings, setup))
        self.trainer.start()
        self.end_token = self.trainer.tokenizer.eos_token_id

    def _model(self) -> str:
        """A folder or hub name that verl loads. A policy that is built and warm-started here is saved first."""
        path = getattr(self.setup.policy, "path", None)
        if path is not None:
            return path
        folder = self._initial
        policy = initial_policy(self.setup)
        check_heads(policy.model.config.get_text_config())
        policy.save(folder)
        return str(folder)

    @property
    def _initial(self) -> Path:
        return self.setup.folder / "initial_policy"

    # --- what bepo.train asks for --------------------------------------------------------------------------

    def collect(self, tasks: Sequence[Task], size: int, sampling: Sampling, seed: int) -> RolloutGroup:
        """As ``bepo.collect.collect``. Draws follow from ``seed`` one request at a time, so a response depends on the
        other requests of the batch through rounding only."""
        with self._stage("rollout"):
            self._forget()
            if not self._fresh:
                self.trainer.push_weights()
                self._fresh = True
            ray.get(self._tasks.put.remote(list(tasks)))
            self._batch = self.trainer.roll_out(
                len(tasks),
                size,
                seed=seed,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                top_k=sampling.top_k,
                env_workers=self.settings.env_workers,
                min_pixels=getattr(self.setup.policy, "min_pixels", 0),
            )
            records = read(self._batch, "prompts", "responses", "rollout_log_probs", "extra_fields")
        failures = [r["extra_fields"]["failure"] for r in records if "failure" in r["extra_fields"]]
        if failures:
            raise UserError(f"backend=verl: {len(failures)} episodes failed, one with: {failures[0]}; {self._logs()}")
        group = RolloutGroup.from_rows([_row(r) for r in records])
        if group.n_trajectories != len(tasks) * size:
            raise UserError(
                f"backend=verl: {group.n_trajectories} of {len(tasks) * size} episodes ended; {self._logs()}"
            )
        self._keys = [self._batch.keys[i] for i in group.row]
        self._metrics = {"restarted_episodes": _restarts(records)}
        return group

    def evaluate_tokens(self, group: RolloutGroup) -> dict[str, float]:
        with self._stage("judge"):
            self._batch, seconds, metrics = self.trainer.judge(self._batch)
            self._metrics |= metrics | {"padding_rows": len(self._batch) - len(group)}
            if self.setup.needs_critic:
                values = dict(zip(self._batch.keys, read(self._batch, "values")))
                group.tokens.value = np.concatenate([values[k]["values"].numpy() for k in self._keys]).astype(
                    np.float32
                )
        return seconds

    def update(
        self,
        group: RolloutGroup,
        advantage: Float[np.ndarray, " R"],
        seed: int,
        target: Float[np.ndarray, " R"] | None = None,
    ) -> dict[str, float]:
        """As ``LocalLearner.update``, in a fixed number of minibatches. Returns means over minibatches."""
        cuts = group.tokens.response_offset[1:-1]
        pieces = [np.split(x.astype(np.float32), cuts) for x in (advantage, advantage if target is None else target)]
        credit = {key: (torch.from_numpy(a), torch.from_numpy(t)) for key, a, t in zip(self._keys, *pieces)}
        with self._stage("update"):
            self._metrics |= self.trainer.learn(self._batch, credit, seed)
            self._fresh = False
            self._forget()
            self.trainer.push_weights()
            self._fresh = True
        return self._stats()

    def save(self, folder: Path) -> None:
        """verl's checkpoint, with a copy for transformers in ``actor/huggingface``."""
        with self._stage("save"):
            self.trainer.save(str(folder.absolute()))
        for file in self._initial.glob("tokenizer*.json"):  # verl's has lost the words of a tiny model
            shutil.copy(file, folder / "actor" / "huggingface")

    def load(self, folder: Path) -> None:
        with self._stage("load"):
            self.trainer.load(str(folder.absolute()), int(folder.name.split("-")[1]))
            self._fresh = False

    def close(self) -> None:
        """Ask TransferQueue and Ray to end, and end what is left, whether they did or not."""
        if self._closed:
            return
        self._closed = True
        self._patience.stop()
        memory = shared_memory(marked(self._mark))
        with self._quiet:
            for end in (tq.close, ray.shutdown):
                within(_GOODBYE, end)
        end_processes(self._mark, memory)
        self._watchdog.stop()

    # --- inside --------------------------------------------------------------------------------------------

    def _stats(self) -> dict[str, float]:
        found = {ours: float(self._metrics[theirs]) for ours, theirs in _NAMES.items() if theirs in self._metrics}
        steps = self.trainer.optimiser_steps * self.setup.training.epochs
        counts = {name: self._metrics[name] for name in ("padding_rows", "restarted_episodes")}
        return {"optimiser_steps": steps, **found, **counts}

    def _forget(self) -> None:
        if self._batch is not None:
            self.trainer.forget(self._batch)
            self._batch = None

    @contextmanager
    def _stage(self, name: str):
        """One of verl's stages: printed matter goes to the log, a failure becomes one line, a hang an end."""
        self._patience.begin(name)
        try:
            with self._quiet:
                yield
        except (UserError, KeyboardInterrupt):
            raise
        except Exception as error:
            self._quiet.note(error)
            raise UserError(f"backend=verl, stage {name}: {explained(error)}; {self._logs()}") from error
        finally:
            self._patience.end()

    def _logs(self) -> str:
        return f"see {self.setup.folder / 'verl.log'} and /tmp/ray/session_latest/logs"


def _row(record: dict[str, Any]) -> dict[str, Any]:
    return {
        **record["extra_fields"]["row"],
        "prompt_ids": record["prompts"].numpy(),
        "response_ids": record["responses"].numpy(),
        "logprobs": record["rollout_log_probs"].numpy(),
    }


def _restarts(records: list[dict]) -> int:
    """Episodes whose environment worker died under them."""
    rows = [(r["extra_fields"]["row"], r["extra_fields"]["restarts"]) for r in records]
    return len({(row["uid"], row["traj"]) for row, restarts in rows if restarts})
