"""What decides which policy training starts from; runs that agree in it share its warm start and first evaluations."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from bepo.core.settings import identity
from bepo.training.backend import Setup


def start_of(setup: Setup) -> dict[str, Any]:
    """Return all that decides which policy training starts from, and how it acts.

    As in a run's id, a neutral field that has its default is left out: one that is added later orphans no warm start.
    """
    import torch

    start = {
        "env": {**identity(setup.env), "version": setup.env.method_version},
        "agent": {**identity(setup.agent), "version": setup.agent.method_version},
        "policy": {**identity(setup.policy), "version": setup.policy.method_version},
        "device": setup.device,
        "threads": torch.get_num_threads(),
    }
    if setup.policy.warm_start_settings is None:
        return start
    fitted_on = [setup.task_sets[split].digest for split in ("train", "validation")]
    return start | {"task_sets": fitted_on, "sampling": asdict(setup.evaluation.sampling)}
