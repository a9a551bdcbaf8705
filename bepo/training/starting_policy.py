"""The settings of the policy that training starts from. Runs with equal ones share warm start and first evaluations."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from bepo.core.settings import identity
from bepo.store.files import digest_of_file
from bepo.store.published import WARM_START, warm_start_key
from bepo.training.backends import Setup


def starting_policy_of(setup: Setup) -> dict[str, Any]:
    """Return all settings that determine the policy that training starts from, and its actions.

    As in a run ID, neutral fields with their default are left out, so a new field does not invalidate old warm starts.
    """
    import torch

    start = {
        "env": {**identity(setup.env), "version": setup.env.method_version},
        "agent": {**identity(setup.agent), "version": setup.agent.method_version},
        "policy": {**identity(setup.policy), "version": setup.policy.method_version},
        "device": setup.device,
        "threads": torch.get_num_threads(),
    }
    if (weights := setup.policy.weights_digest) is not None:
        start["weights"] = weights
    if setup.policy.warm_start_settings is None:
        return start
    fitted_on = [setup.task_sets[split].digest for split in ("train", "validation")]
    return start | {"task_sets": fitted_on, "sampling": asdict(setup.evaluation.sampling)}


def warm_start_name(setup: Setup) -> str | None:
    """Return the folder name of the warm start; None if training starts without a warm start."""
    if setup.weights is not None or setup.policy.warm_start_settings is None or not setup.env.has_expert:
        return None
    return f"{setup.env.name}-{setup.policy.name}-{warm_start_key(starting_policy_of(setup))}"


def planned_start(setup: Setup) -> dict[str, dict[str, str]]:
    """Return the digest of pretrained ``weights``, and the name of the ``warm_start``, which need not exist yet.

    A start without one of them leaves it out.
    """
    weights, name = setup.policy.weights_digest, warm_start_name(setup)
    return ({"weights": {"digest": weights}} if weights else {}) | ({"warm_start": {"name": name}} if name else {})


def start_metadata(setup: Setup) -> dict[str, dict[str, str]]:
    """Return ``planned_start`` for ``run.json``, with the digest of the warm start.

    Equal settings give equal names. Digests are equal only if the weights are: other processors round differently.
    """
    start = planned_start(setup)
    if warm := start.get("warm_start"):
        warm["digest"] = digest_of_file(setup.cache / warm["name"] / WARM_START)
    return start
