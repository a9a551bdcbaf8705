"""Run the real command line on the smallest real setting."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SMALLEST = (
    "policy.warm_start=null",
    "policy.hidden_size=32",
    "policy.num_hidden_layers=1",
    "env.horizon=5",
    "updates=30",
    "checkpoint_every=4",
    "rollout.tasks=2",
    "rollout.group_size=3",
    "rollout.train_tasks=8",
    "evaluation.tasks=4",
    "evaluation.seeds=2",
    "evaluation.every=5",
    "tracking.mode=disabled",
)


def launch(*overrides: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "bepo.train", *overrides]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)


def start(results: Path, *overrides: str) -> subprocess.Popen:
    return launch(*SMALLEST, f"results={results}", *overrides)


def run(*overrides: str) -> tuple[int, str, str]:
    process = launch(*overrides)
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


def train(results: Path, *overrides: str) -> tuple[int, str, str]:
    return run(*SMALLEST, f"results={results}", *overrides)


def stop_after(process: subprocess.Popen, results: Path, rows: int, signal_number: signal.Signals) -> None:
    """Send the signal once the only run in ``results`` has written ``rows`` metric rows."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found = list(results.glob("runs/*/metrics.jsonl"))
        if found and found[0].read_text().count("\n") >= rows:
            process.send_signal(signal_number)
            return
        if process.poll() is not None:
            raise AssertionError(f"ended before {rows} rows: {process.stderr.read()}")
        time.sleep(0.002)
    raise AssertionError(f"no {rows} rows in two minutes")


def rows(results: Path, stream: str) -> list[dict]:
    """Rows of the only run, without its timings."""
    (path,) = results.glob(f"runs/*/{stream}.jsonl")
    parsed = [json.loads(line) for line in path.read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith("time/")} for row in parsed]
