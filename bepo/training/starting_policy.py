"""What decides which policy training starts from; runs that agree in it share its warm start and first evaluations."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from bepo.core.settings import identity
from bepo.store.files import digest_of_file
from bepo.store.published import WARM_START, warm_start_key
from bepo.training.backends import Setup


def starting_policy_of(setup: Setup) -> dict[str, Any]:
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


def warm_start_name(setup: Setup) -> str | None:
    """Return the name of the folder of the warm start; None where training starts from a policy without one."""
    if setup.weights is not None or setup.policy.warm_start_settings is None or not setup.env.has_expert:
        return None
    return f"{setup.env.name}-{setup.policy.name}-{warm_start_key(starting_policy_of(setup))}"


def warm_start_metadata(setup: Setup) -> dict[str, Any]:
    """Return what ``run.json`` says of the warm start in the cache: ``warm_start`` with name and digest, or nothing.

    Equal settings give equal names, and equal weights equal digests: another kind of processor rounds otherwise.
    """
    if (name := warm_start_name(setup)) is None:
        return {}
    return {"warm_start": {"name": name, "digest": digest_of_file(setup.cache / name / WARM_START)}}
