"""Run the real command line on the smallest real setting."""

import faulthandler
import json
import multiprocessing
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from itertools import pairwise
from multiprocessing import forkserver, resource_tracker, util
from pathlib import Path
from unittest import mock

SMALLEST = tuple(
    """
    policy.warm_start=null policy.hidden_size=32 policy.num_hidden_layers=1 env.horizon=5 updates=15
    checkpoint_every=4 rollout.tasks=2 rollout.group_size=3 rollout.train_tasks=8 evaluation.tasks=4
    evaluation.seeds=2 evaluation.every=5 tracking.mode=disabled progress=false
    """.split()
)

SHORT_START = tuple(f"policy.warm_start.{text}" for text in ("episodes=8", "max_steps=2", "check_every=2"))

PACKAGES = ("bepo", "analysis", "tests")  # imported afresh by commands in another folder, which may have others
ROOT = Path(__file__).parents[1]


class Command:
    """``python -m module arguments`` in a process of its own, as from a shell; output goes into files.

    A sweep forks its workers from itself: see ``_fork_workers``.
    """

    def __init__(self, module: str, *arguments: str, folder: Path | None = None) -> None:
        """``folder`` is where it runs, and where our packages are imported from: here, unless one is given."""
        start_server()
        context = multiprocessing.get_context("forkserver")
        self._files = Path(tempfile.mkdtemp(prefix="command-"))
        self._process = context.Process(
            target=_run, args=(module, arguments, folder or Path.cwd(), dict(os.environ), self._files)
        )
        self._process.start()

    @property
    def returncode(self) -> int | None:
        """The exit status, negative after a signal; None while it runs."""
        return self._process.exitcode

    @property
    def output(self) -> tuple[str, str]:
        """What it printed so far, and what it wrote to stderr."""
        out, err = ((self._files / name).read_text(encoding="utf-8") for name in ("out", "err"))
        return out, err

    def communicate(self, timeout: float = 240) -> tuple[str, str]:
        """Wait for its end, and return its output."""
        self._process.join(timeout)
        assert self.returncode is not None, f"still running after {timeout} seconds: {self.output}"
        output = self.output
        shutil.rmtree(self._files)
        return output

    def kill(self) -> None:
        """Kill it, which its workers notice."""
        self._process.kill()

    def send_signal(self, number: int) -> None:
        """Send a signal to it."""
        assert self._process.pid is not None
        os.kill(self._process.pid, number)


def start_server() -> None:
    """Start the server that commands are forked from, unless it runs. Sweeps of this process use it too."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(["tests.preloaded"])
    forkserver.ensure_running()


_SPAWN = util.spawnv_passfds


def fork_server() -> None:
    """Fork that server from this process. It shares the libraries, which take ten seconds to import."""
    import tests.preloaded  # noqa: F401 (it takes these seconds)

    with mock.patch.dict(os.environ, PYTHONWARNINGS="ignore"):  # about what processes left that tests have killed
        resource_tracker.ensure_running()
    with mock.patch.object(util, "spawnv_passfds", _forked):
        start_server()


def _forked(_: bytes, arguments: list[str], files: list[int]) -> int:
    """Fork the server that ``arguments`` would start. It keeps these open files and the standard ones."""
    if pid := os.fork():
        return pid
    try:
        util.spawnv_passfds = _SPAWN
        faulthandler.disable()  # it writes to a file of pytest
        for first, last in pairwise((2, *sorted(files), os.sysconf("SC_OPEN_MAX"))):
            os.closerange(first + 1, last)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 (for as long as it runs)
        sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        exec(arguments[-1], {})
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(0)


def _run(module: str, arguments: tuple[str, ...], folder: Path, environment: dict[str, str], files: Path) -> None:
    for stream, name in enumerate(("out", "err"), 1):
        os.dup2(os.open(files / name, os.O_WRONLY | os.O_CREAT), stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path.insert(0, str(folder))
    if folder != ROOT:
        for name in [name for name in sys.modules if name.split(".")[0] in PACKAGES]:
            del sys.modules[name]
    sys.modules.pop(f"{module}.__main__", None)
    sys.argv = [module, *arguments]
    _fork_workers()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _fork_workers() -> None:
    """Let a sweep of this process fork its workers, because a server of its own would import the libraries again.

    That takes 12 seconds. ``test_sweep.py`` has sweeps with a server.
    """
    get_context = multiprocessing.get_context

    def forking(method: str | None = None):
        return get_context("fork" if method == "forkserver" else method)

    mock.patch.object(multiprocessing, "get_context", forking).start()
    mock.patch.object(forkserver, "ensure_running", lambda: None).start()
    os.register_at_fork(after_in_child=_default_signals)


def _default_signals() -> None:
    """Undo the handlers of the sweep, which the workers of a server do not inherit."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def python(*words: object, folder: Path = ROOT, typed: str = "", **environment: str):
    """Run ``python words`` in a process of its own, as from a shell; return it when it has ended."""
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=folder,
        env=os.environ | environment,
        input=typed,
        capture_output=True,
        text=True,
        timeout=240,
        encoding="utf-8",
    )


def launch(*overrides: str) -> Command:
    return Command("bepo.train", *overrides)


def start(results: Path, *overrides: str) -> Command:
    return launch(*SMALLEST, f"results={results}", *overrides)


def run(*overrides: str) -> tuple[int, str, str]:
    command = launch(*overrides)
    out, err = command.communicate()
    return command.returncode, out, err


def train(results: Path, *overrides: str) -> tuple[int, str, str]:
    return run(*SMALLEST, f"results={results}", *overrides)


def stop_after(process: Command, results: Path, rows: int, signal_number: signal.Signals) -> None:
    """Send the signal once the only run in ``results`` has written ``rows`` metric rows."""
    while not with_rows(results, rows):
        assert process.returncode is None, f"ended before {rows} rows: {process.output[1]}"
        time.sleep(0.002)
    process.send_signal(signal_number)


def with_rows(results: Path, number: int) -> list[Path]:
    """Return the ``metrics.jsonl`` that have so many rows."""
    return [path for path in results.glob("runs/*/metrics.jsonl") if path.read_bytes().count(b"\n") >= number]


def rows(results: Path, stream: str) -> list[dict]:
    """Rows of the only run, without its timings."""
    (run_folder,) = results.glob("runs/*")
    return without_seconds(run_folder, stream)


def without_seconds(run_folder: Path, stream: str) -> list[dict]:
    parsed = [json.loads(line) for line in (run_folder / f"{stream}.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith(("time/", "cpu/"))} for row in parsed]


def writers(path: Path) -> list[int]:
    """Return the processes that hold the file open."""
    processes = []
    for fd in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if fd.resolve() == path.resolve():
                processes.append(int(fd.parts[2]))
        except OSError:
            continue
    return processes
