"""Estimates of how long missing runs take, from earlier updates of the same kind on this machine or from constants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bepo.credit import estimators
from bepo.runs.config import Config
from bepo.runs.machine import cpu_model
from bepo.runs.metrics import seconds_of_updates
from bepo.store.files import Corrupt
from bepo.store.run_files import StoredRun, read_run
from bepo.store.runs import RunFolder
from bepo.sweep.plan import PlannedRun

# Seconds per update, and GPUs, of a run at tier=paper. ALFWorld with the small model is from the paper's runtime
# analysis (225.7 s, and 0.361 s of advantages, on two H100). The others are ASSUMED from it. The 7B model: three times
# the compute on twice the GPUs. WebShop and Sokoban: a horizon of 15 instead of 50, half of the time in rollouts.
PAPER_COST = {
    ("alfworld", "small"): (226.0, 2),
    ("alfworld", "qwen3"): (226.0, 2),
    ("alfworld", "large"): (340.0, 4),
    ("webshop", "small"): (147.0, 2),
    ("webshop", "qwen3"): (147.0, 2),
    ("webshop", "large"): (220.0, 4),
    ("sokoban", "vl"): (147.0, 2),
}
# Measured CPU seconds per update of a tiny model (docs/benchmarks.md). At tier=smoke half of them are for the work
# before and after the four updates of a run.
SMOKE_COST = 2.0
LAPTOP_COST = {"sokoban": 2.6, "webshop": 2.1, "alfworld": 2.5}
DESKTOP_COST = 22.0  # docs/desktop.md
LARGE_FACTOR = 1.5  # model=large
VISION_FACTOR = 2.3  # model=vl
CRITIC_FACTOR = 2.1


@dataclass
class TimeEstimate:
    """How long the missing updates of a run will take."""

    seconds: float  # of one worker
    gpus: int  # 0 on a CPU
    measured: bool  # whether from earlier updates; otherwise from constants


class Throughput:
    """Seconds per update of earlier runs with the same backend, tier, environment and model.

    Runs of the same estimator are used if there are any, or else those with or without a critic, or else the updates
    that the run itself had made. The seconds are CPU seconds for runs on a CPU of this machine's model, and wall-clock
    seconds for runs on GPUs and for the run itself. ``corrupt`` has the
    problems of damaged runs by run ID; these runs are not used.
    """

    def __init__(self, results: Path) -> None:
        self._seconds: dict[tuple, list[float]] = defaultdict(list)
        self._cpu = cpu_model()
        self.corrupt: dict[str, str] = {}
        self._begun: dict[str, float] = {}  # by ID of a run that was begun before
        for path in (results / "runs").glob("*/run.json"):
            self.add(path.parent)
        for path in (results / "runs").glob("*/metrics.jsonl"):
            folder = RunFolder(results, path.parent.name)
            with suppress(Corrupt, TypeError):  # the plan names a run that is damaged
                if not folder.is_complete and (seconds := seconds_of_updates(rows := folder.rows("metrics"))):
                    self._begun[folder.id] = seconds / len(rows)

    def add(self, folder: Path) -> None:
        """Add a complete run, unless it was trained on a CPU of another model."""
        try:
            run = read_run(folder, hashed=False)
            cpus = {session["machine"]["cpu"] for session in run.metadata["sessions"]}
            if run.metadata["result"]["updates"] and (run.clock == "time/" or cpus == {self._cpu}):
                for kind in _kinds(run.config, _needs_critic(run.config)):
                    self._seconds[kind].append(_seconds_an_update(run))
        except Corrupt as error:
            self.corrupt[folder.name] = str(error)
        except (KeyError, TypeError, AttributeError, ArithmeticError) as error:
            self.corrupt[folder.name] = f"{folder}: not a training run ({error!r})"

    def estimate(self, run: PlannedRun, *, whole: bool = False) -> TimeEstimate:
        """Estimate the time of the missing updates of a run, or of all its updates with ``whole``."""
        config = run.config
        made = 0 if whole else run.progress().updates
        updates = max(config.updates, 1) - made  # an evaluation counts as an update
        at_paper = config.tier == "paper"
        gpus = config.backend.world_size if at_paper else 0
        for kind in _kinds(_kind_settings(run), config.credit.needs_critic):
            if kind in self._seconds:
                return TimeEstimate(updates * median(self._seconds[kind]), gpus, measured=True)
        if run.id in self._begun:
            return TimeEstimate(updates * self._begun[run.id], gpus, measured=True)
        if at_paper:
            seconds, gpus = PAPER_COST.get((config.env.name, config.model), (226.0, 2))
            return TimeEstimate(updates * seconds, gpus, measured=False)
        return TimeEstimate(updates * _cpu_cost(config), 0, measured=False)


def _seconds_an_update(run: StoredRun) -> float:
    """Return the seconds per update, including a share of the time before and after training if it is known."""
    name = "cpu_seconds_last_session" if run.clock == "cpu/" else "wall_seconds_last_session"
    whole = run.metadata.get(name) if len(run.metadata["sessions"]) == 1 else None
    seconds = seconds_of_updates(run.metrics(), run.clock) if whole is None else whole
    return seconds / run.metadata["result"]["updates"]


def _cpu_cost(config: Config) -> float:
    """Return the CPU seconds per update of a model on a CPU from the constants above."""
    if config.tier == "smoke":
        return SMOKE_COST
    seconds = DESKTOP_COST if config.tier == "desktop" else LAPTOP_COST.get(config.env.name, max(LAPTOP_COST.values()))
    seconds *= {"large": LARGE_FACTOR, "vl": VISION_FACTOR}.get(config.model, 1.0)
    return seconds * (CRITIC_FACTOR if config.credit.needs_critic else 1.0)


def _kind_settings(run: PlannedRun) -> dict[str, Any]:
    """Return the settings that ``_kinds`` reads, nested as in a run's ``config.json``."""
    config = run.config
    parts = {"env": config.env, "credit": config.credit, "backend": config.backend}
    names = {part: {"name": plugin.name} for part, plugin in parts.items()}
    return {"model": config.model, "tier": config.tier, **names}


def _needs_critic(config: dict[str, Any]) -> bool:
    known = estimators().get(config["credit"]["name"])
    return known is not None and known.needs_critic


def _kinds(config: dict[str, Any], needs_critic: bool) -> Iterator[tuple]:
    """Yield the keys by which runs are compared, the most specific first."""
    place = config["backend"]["name"], config["tier"], config["env"]["name"], config.get("model", "small")
    yield *place, config["credit"]["name"]
    yield *place, needs_critic
