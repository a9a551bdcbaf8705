"""The messages for users if one of Ray's processes fails."""

import re
import traceback

import pytest
import ray
import torch

from bepo.training.verl.processes import describe_failure

FAILURES = [
    (
        ray.exceptions.OutOfMemoryError("Task was killed\nas the node runs low on memory."),
        "out of memory: lower",
    ),
    (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), "out of memory: lower"),
    (ray.exceptions.ActorDiedError(), "a worker process died .*memory"),
    (OSError(98, "Address already in use"), "a port of verl or vLLM"),
    (OSError(28, "No space left on device", "/dev/shm/x"), "not enough shared memory in /dev/shm"),
    (ValueError("first\nlast"), "^last$|: last$"),
    (ValueError(), "ValueError"),
]


@pytest.mark.parametrize("error, message", FAILURES)
def test_a_failure_is_one_line_that_names_its_cause(error, message):
    line = describe_failure(error)
    assert re.search(message, line) and len(line.splitlines()) == 1


@pytest.mark.parametrize("error, message", [f for f in FAILURES if not isinstance(f[0], ray.exceptions.RayActorError)])
def test_so_is_one_with_the_traceback_of_the_worker_that_it_comes_from(error, message):
    text = "".join(traceback.format_exception_only(error))
    line = describe_failure(ray.exceptions.RayTaskError("WorkerDict.update", f"Traceback\n  File x\n{text}", error))
    assert re.search(message, line) and len(line.splitlines()) == 1
