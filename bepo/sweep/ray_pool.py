"""Workers on a Ray cluster: ``bepo.sweep --ray ADDRESS`` gives each run its CPUs and GPUs on one of the machines."""

from __future__ import annotations

import os
import pickle
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bepo.core.errors import Missing, UserError
from bepo.runs.config import Config, cell_overrides
from bepo.sweep.plan import PlannedRun
from bepo.sweep.pool import BUSY, Pool, Worker
from bepo.sweep.remote_run import RemoteRun

_PASSED_ON = ("BEPO_", "WANDB_", "HF_")  # environment variables of the sweep that its runs need
_MOST_LOSSES = 3  # of one run; then it has failed
_FAILED = 1  # exit code of a run whose machine could not start it


@dataclass
class RayWorker(Worker):
    """A run on the cluster. ``process.exitcode`` is set at its end."""

    actor: Any = None
    result: Any = None  # the reference of its exit code

    def stop(self) -> None:
        """Ask the run to stop after the current update; the second time, to stop at once."""
        self.stop_requests += 1
        self.actor.stop.remote()


class RayPool(Pool):
    """At most ``size`` runs at a time on the machines of a Ray cluster; by default as many as have their resources."""

    def __init__(self, address: str, runs: Sequence[PlannedRun], jobs: int | None) -> None:
        """Join the cluster at ``address``, such as ``auto``, ``HOST:6379`` or ``ray://HOST:10001``.

        Raises ``UserError`` if it cannot be joined, or if none of its machines has what a run needs.
        """
        if find_spec("ray") is None:
            raise Missing("--ray needs the ray package", "pip install 'ray>=2.50,<3'")
        import ray  # pyright: ignore[reportMissingImports] (an extra)

        self._ray, self._jobs = ray, jobs
        self._losses: Counter[str] = Counter()  # by run ID
        try:
            ray.init(address, log_to_driver=False, runtime_env={"env_vars": _environment()}, namespace="bepo")
        except (ConnectionError, RuntimeError, ValueError, AssertionError) as error:
            problem = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise UserError(f"--ray {address}: cannot join the cluster ({problem})") from None
        self._needs = [resources_of(run.config) for run in runs] or [{"CPU": 1.0}]
        for needs in self._needs:
            self._check(needs)
        self.workers = []
        self.size = self._capacity()

    @property
    def has_free_slot(self) -> bool:
        """Whether another run can start. Machines may join and leave the cluster."""
        self.size = self._capacity()
        return super().has_free_slot

    def start(self, run: PlannedRun) -> RayWorker:
        """Give a run to the cluster. It starts when a machine has its resources."""
        run.folder.path.mkdir(parents=True, exist_ok=True)
        needs = resources_of(run.config)
        actor_class = self._ray.remote(RemoteRun)
        actor = actor_class.options(num_cpus=needs["CPU"], num_gpus=needs["GPU"], max_concurrency=2, name=None).remote()
        payload = pickle.dumps((run.config, cell_overrides(run.config, run.cells[0].overrides), run.log))
        result = actor.work.remote(payload, run.log, str(Path.cwd()))
        worker = RayWorker(run, SimpleNamespace(exitcode=None), actor=actor, result=result)  # type: ignore[arg-type]
        self.workers.append(worker)
        return worker

    def ended(self, timeout: float) -> list[Worker]:
        """Remove and return the workers that have ended. Wait for one at most ``timeout`` seconds."""
        workers = {worker.result: worker for worker in self.workers if isinstance(worker, RayWorker)}
        if not workers:
            time.sleep(timeout)
            return []
        done, _ = self._ray.wait(list(workers), num_returns=1, timeout=timeout)
        for result in done:
            workers[result].process.exitcode = self._exit_code(workers[result])  # type: ignore[attr-defined]
            self._ray.kill(workers[result].actor)
        ended: list[Worker] = [workers[result] for result in done]
        self.workers = [worker for worker in self.workers if worker not in ended]
        return ended

    def stop(self, requests: int) -> None:
        """Stop the runs: after the current update for one request, at once for two, by force for more."""
        for worker in self.workers:
            if requests > 2 and isinstance(worker, RayWorker):
                self._ray.kill(worker.actor)
            elif worker.stop_requests < requests:
                worker.stop()

    def _exit_code(self, worker: RayWorker) -> int:
        """Return the exit code of a run. One whose machine was lost counts as busy, so that it is tried again."""
        try:
            return self._ray.get(worker.result)
        except self._ray.exceptions.RayTaskError as error:  # raised before the run's process has started
            with worker.run.log.open("a", encoding="utf-8") as log:
                print(f"error: {str(error).strip().splitlines()[-1]}", file=log)
            return _FAILED
        except self._ray.exceptions.RayError:
            self._losses[worker.run.id] += 1
            return BUSY if self._losses[worker.run.id] < _MOST_LOSSES else _FAILED

    def _capacity(self) -> int:
        """Return the number of runs that the cluster can take: ``--jobs``, or as many of the largest run as fit."""
        if self._jobs is not None:
            return self._jobs
        present = self._ray.cluster_resources()
        return max(1, min(int(present.get(name, 0) // n) for needs in self._needs for name, n in needs.items() if n))

    def _check(self, needs: dict[str, float]) -> None:
        machines = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if not any(all(machine.get(name, 0) >= n for name, n in needs.items()) for machine in machines):
            asked = " and ".join(f"{n:g} {name}s" for name, n in needs.items() if n)
            raise UserError(f"--ray: no machine of the cluster has {asked} for a run (backend.device, backend.threads)")


def resources_of(config: Config) -> dict[str, float]:
    """Return the CPUs and GPUs that Ray reserves for a run.

    A run with ``backend=local`` has its threads, and one GPU with ``backend.device=cuda``; ``auto`` does not ask for
    one. A run with ``backend=verl`` has its devices, and a CPU for each of its processes.
    """
    backend = config.backend
    if backend.name == "verl":
        if backend.nodes > 1:
            raise UserError(
                f"backend.nodes={backend.nodes}: --ray gives a run to one machine; choices: backend.nodes=1"
            )
        cpus = backend.n_gpus + backend.env_workers + backend.agent_workers
        return {"CPU": float(cpus), "GPU": float(backend.n_gpus if backend.device != "cpu" else 0)}
    return {"CPU": float(backend.threads), "GPU": float(backend.device == "cuda")}


def _environment() -> dict[str, str]:
    passed = {name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON) or name == "PYTHONPATH"}
    return {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"), **passed}
