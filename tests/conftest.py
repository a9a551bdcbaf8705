import gc
import json
import logging
import os
import resource
import signal
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["WANDB_SILENT"] = "true"

CHECK_SHAPES = "BEPO_CHECK_SHAPES" in os.environ
if CHECK_SHAPES:  # what annotations promise is checked at every call, four times slower: see test_shapes.py
    from jaxtyping import install_import_hook

    import tests.type_check  # noqa: F401 (the hook finds it as an attribute)

    install_import_hook(["bepo.core", "bepo.credit", "bepo.runs.metrics"], "tests.type_check.checked")

# Behind the hook and the number of threads, which modules read while they are imported.
import pytest  # noqa: E402
import torch  # noqa: E402
from hypothesis import settings  # noqa: E402

torch.set_num_threads(1)
settings.register_profile("bepo", deadline=None, derandomize=True, max_examples=3 if CHECK_SHAPES else 20)
settings.register_profile("fast", settings.get_profile("bepo"), max_examples=3)  # make test-fast
settings.register_profile("thorough", settings.get_profile("bepo"), max_examples=300, derandomize=False)  # make attack
settings.load_profile("bepo")

os.fsync = lambda descriptor: None  # waits for the disk, and no test outlives a power failure
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a background shell; the tests' processes would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Let the commands of a worker of pytest-xdist be forked from it, before it has a test's state."""
    if hasattr(config, "workerinput") and not CHECK_SHAPES:
        from tests.command import fork_server

        fork_server()


def pytest_collection_finish() -> None:
    """Leave all that was imported out of later garbage collections, each of which would take a second."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup() -> None:
    """Remove handlers of Hydra that log to the captured output of an earlier test, which is closed."""
    for handler in logging.root.handlers[:]:
        if isinstance(handler, logging.StreamHandler) and getattr(handler.stream, "closed", False):
            logging.root.removeHandler(handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what the tests cost, on whatever else the machine was busy with."""
    costs = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    terminalreporter.write_line(f"CPU seconds: {sum(cost.ru_utime + cost.ru_stime for cost in costs):.0f}")


DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def credit_cases():
    return json.loads((DATA / "credit_golden.json").read_text(encoding="utf-8"))
