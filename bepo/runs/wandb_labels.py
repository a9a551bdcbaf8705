"""The labels of a run in W&B (name, group, tags, config), and its summary."""

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

_NOT_SHOWN = ("tracking", "results", "progress", "study")  # parts of the config that do not describe the run
_SAID = ("env", "tier", "seed")  # overrides that the name of a run contains in another form


def origin(config: Config) -> dict[str, str]:
    """Return why a session runs: the ``study`` that started it (may be empty), and the ``job`` type."""
    job: JobType = "evaluation" if config.is_evaluation else "tuning" if "objectives" in config.study else "training"
    return {"study": config.study.get("name", ""), "job": job}


def labels_of(config: Config, folder: RunFolder, overrides: Sequence[str] = ()) -> Labels:
    """Return the labels of a run. Its group is the study that started it, or else its tier.

    ``overrides`` are those of the run. The studies that share the run are read from the cells that point at it.
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
        name=f"{config.env.name} {text:.96}{seed}",  # W&B allows 128 characters
        group=started_by or config.tier,
        job_type=first.get("job", "training"),
        tags=(*place.values(), *warnings, config.model, text, *sorted(cells)),
        config={name: value for name, value in asdict(config).items() if name not in hidden} | about,
    )


def _warnings(credit: Estimator) -> list[str]:
    """Return tags for an estimator with privileged information, and for a reconstructed method."""
    return ["control"] * credit.privileged + ["reconstruction"] * credit.reconstruction


def method_of(config: Config) -> str:
    """Return the name of the credit estimator, or the prompting method of an evaluation."""
    return config.prompting.method if config.is_evaluation else config.credit.name


def summary_of(folder: RunFolder, updates: int, success: float) -> dict[str, Any]:
    """Return the summary of a complete run with this number of updates.

    It has the test success rate before and after training, the last validation success rate, and the seconds of all
    updates including evaluations: wall-clock and CPU.
    """
    rows, metrics = folder.rows("episodes"), folder.rows("metrics")
    return {
        "test_success": success,
        "test_success_before_training": success_rate(rows, "test", 0),
        "validation_success": success_rate(rows, "validation", updates),
        "seconds": seconds_of_updates(metrics),
        "cpu_seconds": seconds_of_updates(metrics, "cpu/"),
    }
