"""How long the missing runs will take: from earlier runs of the same kind, else from stated constants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bepo.store.files import Corrupt
from bepo.store.stored import read_run
from bepo.sweep.plan import PlannedRun

# Seconds an update and GPUs of a run at tier=paper. ALFWorld with the small model: the paper's runtime analysis
# (225.7 s, and 0.361 s of advantages, on two H100). The rest is ASSUMED from it: 7B at three times the compute on twice
# the GPUs; a horizon of 15 against 50, with half of the time not in rollouts, for WebShop and Sokoban.
PAPER_COST = {
    ("alfworld", "small"): (226.0, 2),
    ("alfworld", "qwen3"): (226.0, 2),
    ("alfworld", "large"): (340.0, 4),
    ("webshop", "small"): (147.0, 2),
    ("webshop", "qwen3"): (147.0, 2),
    ("webshop", "large"): (220.0, 4),
    ("sokoban", "vl"): (147.0, 2),
}
TINY_SECONDS = {"smoke": 3.0, "laptop": 6.0}  # an update on one core; ASSUMED


@dataclass
class TimeEstimate:
    """How long the updates that a run still lacks will take."""

    seconds: float  # of one worker
    gpus: int  # 0 on a CPU
    measured: bool  # on earlier runs; False: from constants


class Throughput:
    """Seconds an update of earlier runs, those of the same backend, environment, model, tier and method before others.

    ``corrupt`` says what is wrong with the runs that do not verify, by run id: they are in no estimate.
    """

    def __init__(self, results: Path) -> None:
        self._seconds: dict[tuple, list[float]] = defaultdict(list)
        self.corrupt: dict[str, str] = {}
        for path in (results / "runs").glob("*/run.json"):
            self.add(path.parent)

    def add(self, folder: Path) -> None:
        """Add a complete run. One of several sessions changes nothing, because its time is known in part only."""
        try:
            run = read_run(folder)
            seconds = run.facts.get("wall_seconds_last_session")
            if seconds is not None and len(run.facts["sessions"]) == 1:
                for kind in _kinds(run.config):
                    self._seconds[kind].append(seconds / run.facts["result"]["updates"])
        except Corrupt as error:
            self.corrupt[folder.name] = str(error)
        except (KeyError, TypeError) as error:
            self.corrupt[folder.name] = f"{folder}: not a training run ({error!r})"

    def estimate(self, run: PlannedRun) -> TimeEstimate:
        """Estimate how long the updates that a run still lacks will take."""
        config = run.config
        updates = config.updates - run.progress().updates
        at_paper = config.tier == "paper"
        for kind in _kinds(_kind_settings(run)):
            if kind in self._seconds:
                gpus = config.backend.world_size if at_paper else 0
                return TimeEstimate(updates * median(self._seconds[kind]), gpus, measured=True)
        if at_paper:
            seconds, gpus = PAPER_COST.get((config.env.name, config.model), (226.0, 2))
            return TimeEstimate(updates * seconds, gpus, measured=False)
        return TimeEstimate(updates * TINY_SECONDS.get(config.tier, 6.0), 0, measured=False)


def _kind_settings(run: PlannedRun) -> dict[str, Any]:
    """Return the settings that ``_kinds`` reads, nested as in a run's ``config.json``."""
    config = run.config
    parts = {"env": config.env, "credit": config.credit, "backend": config.backend}
    names = {part: {"name": plugin.name} for part, plugin in parts.items()}
    return {"model": config.model, "tier": config.tier, **names}


def _kinds(config: dict[str, Any]) -> Iterator[tuple]:
    """Yield what runs are compared by, the most alike first. At tier=paper other models are no guide."""
    tier, env, model = config["tier"], config["env"]["name"], config.get("model", "small")
    place = config["backend"]["name"], tier, env
    yield *place, model, config["credit"]["name"]
    yield *place, model
    if tier != "paper":
        yield place
