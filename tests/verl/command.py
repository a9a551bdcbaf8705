"""Run the real command with the smallest real settings, and list the processes that it leaves behind."""

import json
import os
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import psutil

from bepo.store.run_files import StoredRun, read_run

SLOW = float(
    os.environ.get("BEPO_TEST_SLOW", "1")
)  # what the limits of the tests are multiplied with, on a busy machine
MARK = "BEPO_TEST_COMMAND"  # inherited by every process that the command starts
SMALLEST = (
    "backend=verl",
    "backend.device=cpu",
    "backend.env_workers=1",
    "policy.warm_start=null",
    "policy.num_attention_heads=2",  # vLLM's CPU attention knows heads of 32 numbers and up
    "policy.num_hidden_layers=1",
    "env.horizon=5",
    "rollout.tasks=2",
    "rollout.group_size=3",
    "rollout.train_tasks=8",
    "evaluation.tasks=4",
    "evaluation.seeds=1",
    "evaluation.every=2",
    "tracking.mode=disabled",
    "progress=false",  # phases of more than five seconds are lines of stderr
    "save_rollouts=1",
)


@dataclass
class Done:
    """An ended command."""

    code: int
    out: str
    err: str
    orphans: list[str]
    seconds: float


class Command:
    """A started ``python -m bepo.train``, or another module."""

    def __init__(self, *overrides: str, module: str = "bepo.train", **environment: str) -> None:
        self.mark, self.began = uuid.uuid4().hex, time.monotonic()
        command = [sys.executable, "-m", module, *overrides]
        env = os.environ | {MARK: self.mark, "WANDB_SILENT": "true"} | environment
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdout=pipe, stderr=pipe, text=True, env=env, start_new_session=True, encoding="utf-8"
        )

    def signal_all(self, number: int) -> None:
        """Send a signal to every process of the command's group, as a terminal does."""
        os.killpg(self.process.pid, number)

    def processes(self) -> list[psutil.Process]:
        """Return the processes that the command started and that still run, itself included."""
        processes = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    processes.append(process)
            except psutil.Error:
                continue
        return processes

    def wait(self, timeout: float) -> Done:
        """Wait for the command to end; what it leaves running is ended, and listed as ``orphans``."""
        try:
            out, err = self.process.communicate(timeout=timeout * SLOW)
        except subprocess.TimeoutExpired:
            self.end()
            out, err = self.process.communicate()
            raise AssertionError(f"no end after {timeout * SLOW} s\n{out[-2000:]}\n{err[-2000:]}") from None
        except BaseException:  # the test's own limit, or Ctrl-C
            self.end()
            raise
        left = self.processes()
        _, left = psutil.wait_procs(left, timeout=10)
        orphans = [" ".join(p.cmdline())[:200] for p in left if p.is_running()]
        self.end()
        return Done(self.process.returncode, out, err, orphans, time.monotonic() - self.began)

    def end(self) -> None:
        """Kill every process of the command."""
        for process in self.processes():
            process.kill()


def train(results: Path, *overrides: str, timeout: float = 450) -> Done:
    """Run the command on the smallest setting and wait for its end."""
    return Command(*SMALLEST, f"results={results}", *overrides).wait(timeout)


def only_run(results: Path) -> StoredRun:
    """Read the only run of a results folder."""
    (path,) = results.glob("runs/*")
    return read_run(path)


def rows(results: Path, stream: str) -> list[dict]:
    """Read a stream of the only run of a results folder."""
    (path,) = results.glob(f"runs/*/{stream}.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
