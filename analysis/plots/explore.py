"""Data for the notebooks: the runs, their metrics, their differences, and the rollouts they kept."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import cycle
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure as Picture

from analysis.data.methods import name_of
from analysis.data.runs import Run, grouped
from analysis.data.sources import Source
from analysis.data.statistics import compare
from analysis.grid.parts import Metric
from analysis.plots.style import GREY, PAGE, band, by_seed, legend_above, method_colour, over_updates, panels
from bepo.core.batch import RolloutBatch
from bepo.explore import diagnosis
from bepo.explore.frames import differing
from bepo.store.cells import study_cells
from bepo.store.files import Corrupt
from bepo.store.find import every_run
from bepo.store.run_files import RUN, read_run

_DASHES = ("-", "--", ":", "-.")
_HISTOGRAMS = 4  # a row


def studies(source: Source) -> dict[str, tuple[str, str]]:
    """Return study and tier of all cells by a readable name: one's own first, then the published ones.

    Runs of the results folder that belong to no study come after one's own studies, as study ``""`` of their tier.
    """
    every = source.places()
    local = [place for place in every if (source.results / "studies" / place[0] / place[1]).is_dir()]
    alone = dict.fromkeys(("", run.tier) for run in without_study(source))
    others = [place for place in every if place not in local]
    mine = {f"{name or 'runs without a study'} ({tier})": (name, tier) for name, tier in [*local, *alone]}
    return mine | {f"{name} ({tier}, published)": (name, tier) for name, tier in others}


def without_study(source: Source) -> list[Run]:
    """Return the complete, intact trainings of the results folder that belong to no study."""
    of_studies = {run for _, run in study_cells(source.results)}
    folders = [
        path.parent for path in sorted(source.results.glob(f"runs/*/{RUN}")) if path.parent.name not in of_studies
    ]
    loaded = []
    for folder in folders:
        with suppress(Corrupt):
            loaded.append(Run(read_run(folder, hashed=False)))
    return loaded


def runs(source: Source, study: str, tier: str) -> dict[str, Run]:
    """Return the complete, intact runs of a study by a readable name, the newest first.

    The name contains the settings in which a run differs from others of its environment, model and method.
    """
    of_study = source.all_of_study(study, tier) if study else [run for run in without_study(source) if run.tier == tier]
    runs = sorted(of_study, key=lambda r: (r.started, r.id), reverse=True)
    kinds = {run.id: f"{run.env} {run.model} {name_of(run.preset)}" for run in runs}
    words: dict[str, str] = {}
    for alike in grouped(runs, lambda run: kinds[run.id]).values():
        for run, values in differing({run.id: run.config for run in alike}).items():
            words[run] = "".join(f" {name.removeprefix('credit.')}={values[name]}" for name in values if name != "seed")
    return {f"{kinds[run.id]}{words[run.id]} seed {run.seed} ({run.id})": run for run in runs}


def paths_by_name(results: Path) -> dict[str, Path]:
    """Return the path of every run by its ID: runs of the results folder first, the newest first, then published ones.

    The names of published runs say so.
    """
    paths = every_run(results)
    local = {run: path for run, path in paths.items() if path.suffix != ".zip"}
    newest = sorted(local, key=lambda run: local[run].stat().st_mtime, reverse=True)
    return {run: local[run] for run in newest} | {f"{run} (published)": paths[run] for run in paths if run not in local}


def rollouts(run: Run) -> dict[str, Callable[[], RolloutBatch]]:
    """Return functions that read the rollout batches a run kept, by update."""
    return {f"update {update}": partial(run.rollouts, update) for update in run.kept_updates}


def short(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with numbers of four significant digits."""
    return table.map(lambda value: float(f"{value:.4g}") if isinstance(value, float) else value)


def differences(chosen: Mapping[str, Run]) -> pd.DataFrame:
    """Return the settings in which the runs differ: one row per setting, one column per run."""
    table = pd.DataFrame({name: run.settings | {"seed": run.seed} for name, run in chosen.items()}, dtype=object)
    return table.loc[table.astype(str).nunique(axis=1) > 1, :]


def curves(chosen: Mapping[str, Run], metrics: Sequence[str]) -> Picture:
    """Draw one axis per metric, with one line per run in the colour of its method."""
    figure, axes = panels(max(len(metrics), 1), 1, PAGE, 1.7 * max(len(metrics), 1), sharex=True)
    for axis, metric in zip(axes, metrics):
        over_updates(axis, metric)
        for dashes, (name, run) in zip(cycle(_DASHES), chosen.items()):
            band(axis, by_seed([run], metric), method_colour(run.method), linestyle=dashes, label=name)
    if metrics:
        legend_above(figure, max((axis.lines for axis in axes), key=len), columns=1)
    return figure


def histograms(terms: pd.DataFrame) -> Picture:
    """Draw a histogram of the advantage and of each of its terms (``bepo.explore.diagnosis.terms``)."""
    bars = diagnosis.histograms(terms)
    rows = -(-len(bars) // _HISTOGRAMS)
    figure, axes = panels(rows, _HISTOGRAMS, PAGE, 1.5 * rows)
    for axis, (name, (counts, edges)) in zip(axes, bars.items()):
        axis.stairs(counts, edges, fill=True, color=GREY)
        axis.set_title(name)
    for axis in axes[len(bars) :]:
        axis.set_visible(False)
    return figure


def outcomes(chosen: Mapping[str, Run]) -> pd.DataFrame:
    """Return the final success of each run, and its difference to the last run on the shared tasks (points, 95 %)."""
    success = Metric("success", "Success")
    estimates = {name: estimate for name, run in chosen.items() if (estimate := success.estimate([run]))}
    *_, last = (estimate.sample for estimate in estimates.values())
    rows = []
    for name, estimate in estimates.items():
        rows.append({"run": name, "success": estimate.mean})
        if estimate.sample is not last and estimate.sample.tasks == last.tasks:
            versus = compare(estimate.sample, last)
            rows[-1] |= {"difference": versus.difference, "low": versus.interval.low, "high": versus.interval.high}
    return pd.DataFrame(rows).round(2)


def degeneracy(chosen: Sequence[Run]) -> pd.DataFrame:
    """Return the shares of the advantage mass of each run, averaged over updates, in per cent."""
    rows = []
    for run in chosen:
        means = (100 * run.metrics.filter(like="credit/mass_").mean()).rename(lambda name: name.split("mass_", 1)[1])
        place = {"env": run.env, "model": run.model, "seed": run.seed, "run": run.id}
        rows.append({"method": name_of(run.preset), **means, **place})
    return pd.DataFrame(rows).round(1)
