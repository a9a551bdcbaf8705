"""How long what is missing will take: from earlier records of the same kind, else from stated constants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bepo import record
from bepo.sweep.plan import Run

# Seconds an update and GPUs of a run at scale=paper. ALFWorld with the small model: the paper's runtime analysis
# (225.7 s, and 0.361 s of advantages, on two H100). The rest is ASSUMED from it: 7B at three times the compute on twice
# the GPUs; a horizon of 15 against 50, with half of the time not in rollouts, for WebShop and Sokoban.
PAPER = {
    ("alfworld", "small"): (226.0, 2),
    ("alfworld", "qwen3"): (226.0, 2),
    ("alfworld", "large"): (340.0, 4),
    ("webshop", "small"): (147.0, 2),
    ("webshop", "qwen3"): (147.0, 2),
    ("webshop", "large"): (220.0, 4),
    ("sokoban", "vl"): (147.0, 2),
}
TINY = {"smoke": 3.0, "laptop": 6.0}  # seconds an update on one core, before any record says otherwise


@dataclass
class Estimate:
    seconds: float  # of one worker
    gpus: int  # 0 on a CPU
    measured: bool


class Throughput:
    """Seconds an update of earlier records, the nearest first: same backend, environment, model, tier and method.

    ``corrupt`` names the records that do not verify, by run id: they are in no estimate.
    """

    def __init__(self, results: Path) -> None:
        self._seconds: dict[tuple, list[float]] = defaultdict(list)
        self.corrupt: dict[str, str] = {}
        for path in (results / "runs").glob("*/record.json"):
            self.add(path.parent)

    def add(self, path: Path) -> None:
        """One more record; those of several sessions say nothing."""
        try:
            found = record.read(path)
            seconds = found.facts.get("wall_seconds_last_session")
            if seconds is not None and len(found.facts["sessions"]) == 1:
                for kind in _kinds(found.config):
                    self._seconds[kind].append(seconds / found.facts["result"]["updates"])
        except record.CorruptRecord as error:
            self.corrupt[path.name] = str(error)
        except (KeyError, TypeError) as error:
            self.corrupt[path.name] = f"{path}: not a training run ({error!r})"

    def of(self, run: Run) -> Estimate:
        """Of what is left of the run."""
        config = run.config
        left = config.updates - run.progress().updates
        paper = config.scale == "paper"
        names = {part: {"name": getattr(config, part).name} for part in ("env", "credit", "backend")}
        for kind in _kinds({"model": config.model, "scale": config.scale, **names}):
            if kind in self._seconds:
                gpus = getattr(config.backend, "world_size", 1) if paper else 0
                return Estimate(left * median(self._seconds[kind]), gpus, measured=True)
        if paper:
            seconds, gpus = PAPER.get((config.env.name, config.model), (226.0, 2))
            return Estimate(left * seconds, gpus, measured=False)
        return Estimate(left * TINY.get(config.scale, 6.0), 0, measured=False)


def _kinds(config: dict) -> Iterable[tuple]:
    """What a run is compared by, from the most to the least alike."""
    scale, env, model = config["scale"], config["env"]["name"], config.get("model", "small")
    where = config["backend"]["name"], scale, env
    yield *where, model, config["credit"]["name"]
    yield *where, model
    if scale != "paper":
        yield where
