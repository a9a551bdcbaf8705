"""Train and evaluate one agent: ``python -m bepo.train credit=gated_bepo env=sokoban scale=laptop seed=0``.

Read ``run`` from top to bottom: it is the whole life of a run.
"""

from __future__ import annotations

import platform
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import hydra
import numpy as np
from hydra.core.hydra_config import HydraConfig
from hydra.errors import CompactHydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from tqdm import tqdm

from bepo import objective, record
from bepo.collect import derive_seed
from bepo.config import Config, cell_overrides, identity_of, register_configs
from bepo.credit import Estimator
from bepo.errors import UserError
from bepo.evaluate import evaluate, success_rate
from bepo.metrics import credit_metrics, prefixed, rollout_metrics
from bepo.panels import Panel, panel
from bepo.tracking import Tracker
from bepo.training.backend import Engine, Setup


def run(config: Config, overrides: Sequence[str] = ()) -> float:
    """Train as ``config`` says and leave a complete record; returns the final test success rate.

    A complete run is not repeated, and a killed one goes on from its checkpoint to the same numbers. ``overrides``
    name the run's cell in its study, if it belongs to one.
    """
    results, device = Path(config.results), config.backend.resolve()
    folder = record.RunFolder(results, record.run_id(identity_of(config, device)))
    with folder.locked():
        if config.study:
            record.note_cell(results, config.study["name"], config.scale, cell_overrides(overrides), folder.id)
        if folder.is_complete:
            done = record.read(folder.path)
            print(f"run {folder.id} is complete: success {done.facts['result']['success']:.3f} ({folder.path})")
            return done.facts["result"]["success"]
        now = datetime.now(UTC).isoformat(timespec="seconds")
        folder.start(asdict(config), {"started": now, **record.source_state()})
        panels = _panels(config)
        engine = config.backend.start(make_setup(config, folder, device, panels))
        try:
            success = _Run(config, folder, engine, panels).finish()
        finally:
            engine.close()
        print(f"run {folder.id}: success {success:.3f} on held-out tasks ({folder.path})")
        return success


def _panels(config: Config) -> dict[str, Panel]:
    sizes = {
        "train": config.rollout.train_tasks,
        "validation": config.evaluation.tasks,
        "test": config.evaluation.tasks,
    }
    return {split: panel(config.env, split, n, Path(config.results) / "panels") for split, n in sizes.items()}


def make_setup(config: Config, folder: record.RunFolder, device: str, panels: dict[str, Panel]) -> Setup:
    return Setup(
        env=config.env,
        agent=config.agent,
        policy=config.policy,
        training=config.training,
        evaluation=config.evaluation,
        sampling=config.rollout.sampling,
        trajectories=config.rollout.n_tasks * config.rollout.group_size,
        updates=config.updates,
        needs_critic=getattr(config.credit, "needs_critic", False),
        panels=panels,
        device=device,
        cache=Path(config.results) / "warm_starts",
        folder=folder.path,
    )


class _Run:
    """A run in progress: its parts, and where it stands."""

    def __init__(self, config: Config, folder: record.RunFolder, engine: Engine, panels: dict[str, Panel]) -> None:
        self.config, self.folder, self.engine, self.panels = config, folder, engine, panels
        self.clock = time.perf_counter()
        saved = folder.checkpoint()
        self.update = saved[0] if saved else 0
        if saved:
            engine.load(saved[1])
        folder.rewind()
        self.tracker = Tracker(config.tracking, folder.id, folder.path, asdict(config))

    def finish(self) -> float:
        config, folder = self.config, self.folder
        try:
            if self.folder.checkpoint() is None:
                self._evaluate("test", range(config.evaluation.seeds))
                self._evaluate("validation", [0])
                self._checkpoint()
            with _interrupts() as interrupted, self._bar() as bar:
                while self.update < config.updates:
                    self.update += 1
                    row = self._train_step()
                    due = config.evaluation.every and self.update % config.evaluation.every == 0
                    if due:
                        start = time.perf_counter()
                        row["eval/validation_success"] = self._evaluate("validation", [0])
                        row["time/evaluation"] = time.perf_counter() - start
                    folder.append("metrics", row)
                    self.tracker.log(row)
                    if self.update % config.checkpoint_every == 0 or interrupted:
                        self._checkpoint()
                    _show(bar, row)
                    if interrupted:
                        raise KeyboardInterrupt
            self._checkpoint()
            success = self._evaluate("test", range(config.evaluation.seeds))
            self._complete(success)
            return success
        except BaseException:
            self.tracker.finish(None)
            raise

    def _train_step(self) -> dict[str, Any]:
        """Rollouts, advantages, one policy update."""
        config, seed = self.config, derive_seed(self.config.seed, self.update)
        marks = [time.perf_counter()]
        tasks = draw_tasks(self.panels["train"], config.rollout.n_tasks, config.seed, self.update)
        group = self.engine.collect(tasks, config.rollout.group_size, config.rollout.sampling, seed)
        marks.append(time.perf_counter())
        stages = self.engine.evaluate_tokens(group)
        marks.append(time.perf_counter())
        credit = config.credit(group)
        marks.append(time.perf_counter())
        advantage = credit.token_advantage
        if advantage is None:
            advantage = np.repeat(credit.advantage, group.tokens.response_length)
        stats = self.engine.update(group, advantage, seed, credit.token_return)
        marks.append(time.perf_counter())
        if config.save_rollouts and self.update % config.save_rollouts == 0:
            (self.folder.path / "rollouts").mkdir(exist_ok=True)
            group.save(self.folder.path / "rollouts" / f"{self.update:06d}.npz")
        rollout, _, credited, updated = np.diff(marks).tolist()
        times = {"rollout": rollout, **stages, "credit": credited, "update": updated}  # seconds
        return {
            "update": self.update,
            **rollout_metrics(group, config.policy.max_response, self.engine.end_token),
            **credit_metrics(credit),
            "credit/token_advantage_mean": float(advantage.mean()),
            **prefixed("train", stats),
            **prefixed("time", times),
        }

    def _evaluate(self, split: str, seeds: Any) -> float:
        rows = [
            {"update": self.update, **row}
            for seed in seeds
            for row in evaluate(self.engine.collect, self.panels[split], seed, self.config.evaluation.sampling)
        ]
        self.folder.append("episodes", *rows)
        return success_rate(rows)

    def _checkpoint(self) -> None:
        """Save where the run stands, unless that is saved already."""
        saved = self.folder.checkpoint()
        if saved and saved[0] == self.update:
            return
        with self.folder.new_checkpoint(self.update) as path:
            self.engine.save(path)

    def _complete(self, success: float) -> None:
        result = {"success": success, "updates": self.update}
        facts = {
            "status": "complete",
            "scale": self.config.scale,
            "seed": self.config.seed,
            "method": method_facts(self.config.credit),
            "panels": {s: {"tasks": len(p), "digest": p.digest} for s, p in self.panels.items()},
            "method_versions": identity_of(self.config, self.engine.facts["device"])["method_versions"],
            "result": result,
            "sessions": self.folder.sessions(),
            "wall_seconds_last_session": round(time.perf_counter() - self.clock, 1),
            "machine": platform.platform(),
            **self.engine.facts,
            "environment": getattr(self.config.env, "facts", dict)(),
        }
        facts["versions"] = facts["versions"] | {"python": platform.python_version()}
        self.folder.complete(facts)
        results = Path(self.config.results)
        self.tracker.finish({"test_success": success}, record.belongings(results, self.folder.id), results)

    def _bar(self) -> tqdm:
        name = f"{self.config.credit.name} seed {self.config.seed}"
        shown = None if self.config.progress else True  # None: only on a terminal
        return tqdm(total=self.config.updates, initial=self.update, desc=name, unit="update", disable=shown)


def method_facts(credit: Estimator) -> dict[str, Any]:
    """What a table may say about an estimator, kept with its numbers."""
    return {"citation": credit.citation, "reconstruction": credit.reconstruction, **credit.traits}


def draw_tasks(train: Panel, n: int, seed: int, update: int) -> list:
    """The tasks of an update: successive slices of seeded permutations of the panel, one a pass."""
    first = (update - 1) * n
    epochs = range(first // len(train), (first + n - 1) // len(train) + 1)
    orders = [np.random.default_rng(derive_seed(seed, 0x7461736B, e)).permutation(len(train)) for e in epochs]
    start = first - epochs[0] * len(train)
    return [train.tasks[i] for i in np.concatenate(orders)[start : start + n]]


def _show(bar: tqdm, row: dict[str, float]) -> None:
    shown = {"success": row["train/success"], "return": row["train/return"]}
    if "credit/gate_record_coverage" in row:
        shown["gate"] = row["credit/gate_record_coverage"]
    if "eval/validation_success" in row:
        bar.validation = row["eval/validation_success"]
    if hasattr(bar, "validation"):
        shown["validation"] = bar.validation
    bar.set_postfix({name: f"{value:.2f}" for name, value in shown.items()}, refresh=False)
    bar.update()


@contextmanager
def _interrupts():
    """Ctrl-C lets the update end and checkpoints; a second one stops at once. Yields a list, empty until then."""
    received: list[int] = []

    def note(number: int, frame: object) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)
        print("\nstopping after this update (Ctrl-C again: at once)", file=sys.stderr)

    try:
        before = signal.signal(signal.SIGINT, note)
    except ValueError:  # not the main thread: a launcher decides
        yield received
        return
    try:
        yield received
    finally:
        signal.signal(signal.SIGINT, before)


def objectives(config: Config, overrides: Sequence[str]) -> float | list[float]:
    """What a sweeper of Hydra is told: test success, or an Optuna study's objectives over its training seeds."""
    if "objectives" not in config.study:
        return run(config, overrides)
    found = []
    for seed in config.study["seeds"]:
        one = replace(config, seed=seed)
        run(one, [*overrides, f"seed={seed}"])
        identifier = record.run_id(identity_of(one, one.backend.resolve()))
        found.append(record.read(record.RunFolder(Path(one.results), identifier).path))
    values = objective.values(config.study["objectives"], found)
    return values if len(values) > 1 else values[0]


register_configs()


@hydra.main(config_path="../conf", config_name="train")
def main(cfg: DictConfig) -> float | list[float]:
    overrides = HydraConfig.get().overrides.task
    try:
        return objectives(OmegaConf.to_object(cfg), overrides)
    except UserError as error:
        if HydraConfig.get().mode == RunMode.RUN:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(2)
        print(f"error: {' '.join(overrides)}: {error}", file=sys.stderr)
        # Hydra runs the other cells of a grid, then shows this one again, and exits with status 1.
        raise CompactHydraException(str(error)) from None
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from the checkpoint", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
