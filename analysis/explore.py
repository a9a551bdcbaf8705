"""What the notebooks ask: which runs there are, what they logged, how they differ, and which rollouts they kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from analysis.artefact import artefacts
from analysis.build import Built, build
from analysis.methods import COLOURS, name_of
from analysis.parts import Metric
from analysis.runs import Run
from analysis.sources import Source
from analysis.stats import compare
from analysis.style import PAGE, band, legend_above, over_updates, panels
from bepo import record
from bepo.rollout import RolloutGroup

_DASHES = ("-", "--", ":", "-.")


def results_folder(arguments: Mapping[str, object]) -> Path:
    """``--results FOLDER`` of a notebook's command line (behind ``--``), else ``results``."""
    return Path(str(arguments.get("results") or "results"))


def runs(results: Path) -> dict[str, Run]:
    """Every complete, intact run by a name to choose it by, the newest first."""
    found = []
    for folder in sorted((results / "runs").glob("*")):
        try:
            found.append(Run(record.read(folder)))
        except record.CorruptRecord:
            continue
    found.sort(key=lambda r: (r.started, r.id), reverse=True)
    return {f"{r.scale} {r.env} {r.model} {name_of(r.method)} seed {r.seed} ({r.id})": r for r in found}


def rollouts(run: Run) -> dict[str, Path]:
    """The rollout groups that a run kept (``save_rollouts=n``), by update."""
    return {f"update {int(p.stem)}": p for p in sorted((run.path / "rollouts").glob("*.npz"))}


def with_rollouts(found: Mapping[str, Run]) -> dict[str, Run]:
    return {name: run for name, run in found.items() if rollouts(run)}


def load(path: Path) -> RolloutGroup:
    return RolloutGroup.load(path)


def figures(results: Path, scale: str, labels: Sequence[str]) -> dict[str, Built]:
    """Artefacts of a tier, in memory."""
    source, known = Source(results), artefacts()
    return {label: build(known[label], source, scale) for label in labels}


def short(table: pd.DataFrame) -> pd.DataFrame:
    """Numbers as one reads them: four significant digits."""
    return table.map(lambda value: float(f"{value:.4g}") if isinstance(value, float) else value)


def scales(results: Path) -> list[str]:
    return Source(results).scales()


# --- comparing runs -------------------------------------------------------------------------------------------------


def logged(found: Sequence[Run]) -> list[str]:
    """Metrics that at least one of the runs logged."""
    return sorted({column for run in found for column in run.metrics.columns} - {"update"})


def differences(found: Mapping[str, Run]) -> pd.DataFrame:
    """Settings in which the runs differ: a row a setting, a column a run."""
    table = pd.DataFrame({name: run.settings | {"seed": run.seed} for name, run in found.items()}, dtype=object)
    return table[table.astype(str).nunique(axis=1) > 1]


def curves(found: Mapping[str, Run], metrics: Sequence[str]) -> plt.Figure:
    """A panel a metric, a line a run, in the colour of its method."""
    figure, axes = panels(max(len(metrics), 1), 1, PAGE, 1.7 * max(len(metrics), 1), sharex=True)
    for axis, metric in zip(axes, metrics):
        over_updates(axis, metric)
        for i, (name, run) in enumerate(found.items()):
            if metric in run.metrics:
                table = run.metrics.set_index("update")[[metric]].dropna()
                band(axis, table, COLOURS.get(run.method, "black"), linestyle=_DASHES[i % 4], label=name)
    if metrics:
        legend_above(figure, max((axis.lines for axis in axes), key=len), columns=1)
    return figure


def outcomes(found: Mapping[str, Run]) -> pd.DataFrame:
    """Final success of each run, and its lead over the last one on the shared tasks (points, 95 % interval)."""
    success = Metric("success", "Success")
    samples = {name: success.sample([run]) for name, run in found.items()}
    *_, last = samples.values()
    rows = []
    for name, sample in samples.items():
        row = {"run": name, "success": sample.per_seed.mean()}
        if sample is not last and sample.tasks == last.tasks:
            versus = compare(sample, last)
            row |= {"lead": versus.difference, "low": versus.interval.low, "high": versus.interval.high}
        rows.append(row)
    return pd.DataFrame(rows).round(2)


def degeneracy(found: Sequence[Run]) -> pd.DataFrame:
    """Means over updates of where the advantage mass of each run rests."""
    rows = []
    for run in found:
        masses = [c for c in run.metrics.columns if c.startswith("credit/mass_")]
        means = {c.removeprefix("credit/mass_"): 100 * run.metrics[c].mean() for c in masses}
        place = {"env": run.env, "model": run.model, "seed": run.seed, "run": run.id}
        rows.append({"method": name_of(run.method)} | means | place)
    return pd.DataFrame(rows).round(1)
