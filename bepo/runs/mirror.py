"""What W&B is told of a run beside its rows: where it belongs, and what it came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bepo.credit import Estimator
from bepo.runs.config import OF_UPDATES, Config
from bepo.runs.metrics import seconds_of_updates, success_rate
from bepo.store.cells import cells_of_run
from bepo.store.runs import RunFolder
from bepo.store.tracking import JobType, Labels

_NOT_SHOWN = ("tracking", "results", "progress", "study")  # of the config: they say nothing about the run
_SAID = ("env", "tier", "seed")  # overrides that a name has no need of, because it says the same in other words


def origin(config: Config) -> dict[str, str]:
    """Return what a session says of why it runs: the study that started it, if any, and the kind of work."""
    job: JobType = "evaluation" if config.is_evaluation else "tuning" if "objectives" in config.study else "training"
    return {"study": config.study.get("name", ""), "job": job}


def labels_of(config: Config, folder: RunFolder, overrides: Sequence[str] = ()) -> Labels:
    """Return where a run belongs: its group is the study that started it, or its tier where there is none.

    ``overrides`` are those that make the run. Studies that share it come from the cells that point at it by now.
    """
    first = (folder.sessions() or [origin(config)])[0]
    started_by = first.get("study", "")
    cells = cells_of_run(Path(config.results), folder.id)
    cell = cells.get(started_by, {})
    chosen = cell.get("varying") or cell.get("overrides", overrides)
    trial = next((int(o.removeprefix("trial=")) for o in chosen if o.startswith("trial=")), None)
    text = " ".join(o for o in chosen if o.split("=")[0] not in _SAID) or method_of(config)
    place = {"tier": config.tier, "environment": config.env.name, "method": method_of(config)}
    about = place | {"cell": text, "trial": trial, "started_by": started_by, "studies": sorted(cells)}
    hidden = (*_NOT_SHOWN, *OF_UPDATES, "updates") if config.is_evaluation else _NOT_SHOWN
    seed = "" if config.is_evaluation else f" seed={config.seed}"
    warnings = [] if config.is_evaluation else _warnings(config.credit)
    return Labels(
        name=f"{config.env.name} {text:.96}{seed}",  # W&B takes 128 characters
        group=started_by or config.tier,
        job_type=first.get("job", "training"),
        tags=(*place.values(), *warnings, config.model, text, *sorted(cells)),
        config={name: value for name, value in asdict(config).items() if name not in hidden} | about,
    )


def _warnings(credit: Estimator) -> list[str]:
    """Return tags that say what an estimator is other than a method as its authors wrote it."""
    return ["control"] * credit.upper_bound + ["reconstruction"] * credit.reconstruction


def method_of(config: Config) -> str:
    """Return the name of the credit estimator, or of the way in which an evaluated policy is asked."""
    return config.prompting.method if config.is_evaluation else config.credit.name


def summary_of(folder: RunFolder, updates: int, success: float) -> dict[str, Any]:
    """Return what a complete run of so many updates came to.

    That is its test success rate, before and after training, that of its last validation passes, and what all updates
    with their evaluations took: seconds by the clock, and CPU seconds.
    """
    rows, metrics = folder.rows("episodes"), folder.rows("metrics")
    return {
        "test_success": success,
        "test_success_before_training": success_rate(rows, "test", 0),
        "validation_success": success_rate(rows, "validation", updates),
        "seconds": seconds_of_updates(metrics),
        "cpu_seconds": seconds_of_updates(metrics, "cpu/"),
    }
