"""``python -m benchmarks.analysis [RUNS]``: plan, list and analyse a folder of many generated runs.

``python -m benchmarks.analysis published`` times what answers from the published runs: with an empty cache, then with
the store of their rows, then with what the analysis has kept.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bepo.envs.alfworld.generate import TASK_TYPES
from bepo.store.cells import note_cell
from bepo.store.runs import RunFolder
from tests.stored_runs import nested

UPDATES, EVERY, TASKS, PASSES = 150, 10, 128, 3  # as in the paper
METHODS = ("ppo", "rloo", "grpo", "gagpo", "gigpo", "hgpo", "gated_bepo")
ABLATIONS = {
    "gate_thresholds": [{"n_min": n, "b_min": b} for n, b in ((1, 1), (2, 1), (2, 2), (3, 2), (2, 3))],
    "backup_operator": [{"backup": b} for b in ("mean", "max", "softmax")],
    "iteration_budget": [{"iterations": k} for k in (0, 1, 3, 5, 10, 20)],
    "gae_lambda": [{"gae_lambda": v} for v in (0.0, 0.5, 0.8, 1.0)],
    "step_weight": [{"step_weight": v} for v in (0.5, 1.0, 1.5, 2.0)],
    "gate_gae_order": [{"gate_order": v} for v in ("stop", "mask", "post")],
}


def cells() -> Iterator[tuple[str, dict[str, object]]]:
    """Yield study and settings of an endless list of runs: main studies and ablations, then more training seeds."""
    for seed in itertools.count():
        for model, method in itertools.product(("small", "large"), METHODS):
            for env in ("alfworld", "webshop"):
                yield f"main_{env}", {"env.name": env, "model": model, "credit.name": method, "seed": seed}
        for env, method in itertools.product(("alfworld", "webshop"), ("grpo", "gigpo", "hgpo", "gated_bepo")):
            yield "qwen3_transfer", {"env.name": env, "model": "qwen3", "credit.name": method, "seed": seed}
        for study, settings in ABLATIONS.items():
            env = "alfworld" if study == "backup_operator" else "webshop"
            for chosen in settings:
                fields = {f"credit.{k}": v for k, v in chosen.items()}
                yield study, {"env.name": env, "credit.name": "gated_bepo", "seed": seed} | fields


def write(results: Path, number: int) -> None:
    rng = np.random.default_rng(0)
    for i, (study, settings) in enumerate(itertools.islice(cells(), number)):
        folder = RunFolder(results, f"{i:012x}")
        note_cell(results, study, "laptop", [f"{k}={v}" for k, v in settings.items()], folder.id)
        base = {"model": "small", "policy.name": "tiny", "backend.name": "local", "updates": UPDATES}
        session = {"started": "2026-01-01T00:00:00+00:00", "commit": "0" * 40, "dirty": False}
        with folder.locked():
            folder.start(nested(base | settings), session)
            folder.append("metrics", *_metrics(rng, settings.get("credit.iterations", 20)))
            folder.append("episodes", *_episodes(rng, 0.2 + 0.6 * rng.random()))
            folder.complete(
                {
                    "tier": "laptop",
                    "seed": settings["seed"],
                    "task_sets": {"test": {"tasks": TASKS, "digest": str(settings["env.name"])}},
                    "method_versions": {"credit": 1, "run": 1},
                    "result": {"success": 0.5, "updates": UPDATES},
                    "sessions": [session],
                    "device": "cpu",
                }
            )


def _metrics(rng: np.random.Generator, iterations: int) -> Iterator[dict]:
    names = [f"train/{n}" for n in "return entropy grad_norm kl response_length response_clip_ratio".split()]
    names += [f"credit/gate_{n}_coverage" for n in ("transition", "state")]
    names += [f"credit/transitions_visits_{n}" for n in ("1", "2_3", "4_7", "8_up")]
    names += [f"credit/{n}" for n in "states_per_group visits_per_state token_advantage_mean advantage_std".split()]
    names += [f"credit/delta_advantage_{k}" for k in (1, 3, 5, 10, 20) if k <= iterations]
    names += [f"time/{n}" for n in "rollout old_logprob reference values credit update evaluation".split()]
    names += [f"credit/other_{i}" for i in range(10)]
    for update in range(1, UPDATES + 1):
        values = rng.random(len(names)).tolist()
        yield {"update": update, "train/success": update / UPDATES, **dict(zip(names, values))}


def _episodes(rng: np.random.Generator, skill: float) -> Iterator[dict]:
    passes = [("test", 0, e) for e in range(PASSES)] + [("test", UPDATES, e) for e in range(PASSES)]
    passes += [("validation", u, 0) for u in range(0, UPDATES + 1, EVERY)]
    for split, update, seed in passes:
        draws = rng.random(TASKS)
        for i, draw in enumerate(draws.tolist()):
            won = draw < skill
            yield {
                "update": update,
                "split": split,
                "evaluation_seed": seed,
                "task": f"{split}{i:012x}",
                "kind": TASK_TYPES[i % len(TASK_TYPES)],
                "success": won,
                "score": 1.0 if won else draw,
                "return": 10.0 * won,
                "steps": 20,
                "valid": 1.0,
            }


def main(number: int = 500) -> None:
    folder = Path(tempfile.mkdtemp())
    results = folder / "results"
    try:
        write(results, number)
        size = sum(p.stat().st_size for p in folder.rglob("*.jsonl")) / 2**20
        print(f"{number} finished runs, {size:.0f} MiB of rows")
        for command in (
            ["bepo.sweep", "main_alfworld", "main_webshop", "tier=laptop", f"results={results}", "--dry-run"],
            ["analysis", "runs", "--results", str(results)],
            ["analysis", "--results", str(results), "--out", str(folder / "paper")],
        ):
            print(measured(command), flush=True)
    finally:
        shutil.rmtree(folder)


def published() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BEPO_CACHE"] = f"{folder}/cache"
        out = ["--out", f"{folder}/paper", "--source", "published"]
        entry, other = (f"main-results/ALFWorld/All/{method}/1.5B" for method in ("HGPO", "GRPO"))
        for command in (
            ["explain", entry, "--source", "published"],  # makes the store
            ["claims", *out],
            out,
            out,
            ["claims", *out],
            ["explain", other, "--source", "published"],
            ["explain", other, "--source", "published"],
            ["runs", "--source", "published"],
            ["runs", "--source", "published"],
        ):
            print(measured(["analysis", *command]), flush=True)


def measured(command: list[str]) -> str:
    """Run a module, and return a text with its time and its peak memory."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu, memory = used.ru_utime + used.ru_stime, used.ru_maxrss / 2**10
    took = f"{time.perf_counter() - start:.1f} s, {cpu:.1f} s of CPU, {memory:.0f} MiB"
    return f"{' '.join(command[:2])}: {took} (exit {process.returncode})"


if __name__ == "__main__":
    published() if sys.argv[1:2] == ["published"] else main(*map(int, sys.argv[1:2]))
