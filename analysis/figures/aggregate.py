"""Figures performance-profiles and aggregate-curves: methods over all environments at once, and every training seed."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.data.methods import environment_name, is_control, name_of, ordered
from analysis.data.runs import EVERY_METHOD, Run, Studies, grouped
from analysis.data.strata import Strata, improvement, profile, profile_bands, strata
from analysis.grid.artefact import artefact
from analysis.grid.table import Figure
from analysis.plots import hover, style

OURS = "gated_bepo"
_THRESHOLDS = np.arange(0.0, 100.0, 1.0)
_PROGRESS = np.linspace(0, 100, 21)  # per cent of the updates


def _trained(studies: Studies) -> list[Run]:
    return [run for run in studies.runs if not run.is_evaluation]


@artefact("performance-profiles", "figure", study=EVERY_METHOD)
def performance_profiles(studies: Studies) -> Figure:
    """Draw the share of runs above each success, and the chance that Gated-BEPO ends above each method."""
    found = strata(_trained(studies))
    methods = ordered(found)
    figure, (profiles, chances) = style.panels(1, 2, style.PAGE, 2.5, width_ratios=(1.4, 1))
    profiles.set(xlabel="Final test success τ (%)", ylabel="Share of runs above τ (%)", title="Performance profile")
    chances.set(xlabel="Probability of improvement (%)", title="Gated-BEPO ends above ...")
    for method in methods:
        _draw_profile(profiles, method, found[method])
    others = [method for method in methods if method != OURS] if OURS in found else []
    _draw_chances(chances, found, others)
    for axis in (profiles, chances):
        style.if_empty(axis, studies.runs)
    style.legend_above(figure, profiles.lines, columns=5)
    style.letters((profiles, chances))
    places = sorted({environment_name(run.env) for run in _trained(studies) if run.method in found})
    caption = (
        f"Success over {' and '.join(places) or 'no environment'} (tier {studies.tier}): (a) share of runs that end "
        "above each success on the test tasks; (b) chance that a training by Gated-BEPO ends above one by another "
        "method. Means over environments; bands and bars: 95 %, bootstrap of training seeds within each environment "
        "(Agarwal et al., 2021); no bar where all pairs of seeds agree."
    )
    left = sorted({name_of(run.method) for run in _trained(studies)} - set(map(name_of, found)))
    notes = [f"Without runs in every environment, left out: {', '.join(left)}."] if left and found else []
    return Figure(caption, figure, [run for run in _trained(studies) if run.method in found], notes)


def _draw_profile(axis: Axes, method: str, scores: Strata) -> None:
    share, (low, high) = 100 * profile(scores, _THRESHOLDS), profile_bands(scores, _THRESHOLDS)
    colour, name = style.method_colour(method), name_of(method)
    dashes = "--" if is_control(method) else "-"
    (line,) = axis.step(_THRESHOLDS, share, where="post", color=colour, linestyle=dashes, label=name)
    band = axis.fill_between(_THRESHOLDS, 100 * low, 100 * high, step="post", color=colour, alpha=0.1, linewidth=0)
    texts = [f"{name}: {s:.0f} % of runs above {t:.0f} %" for t, s in zip(_THRESHOLDS, share)]
    hover.describe(line, texts)
    for artist in (line, band):
        hover.belongs(artist, name)


def _draw_chances(axis: Axes, found: dict[str, list[np.ndarray]], others: Sequence[str]) -> None:
    for row, method in enumerate(others):
        chance, interval = improvement(found[OURS], found[method])
        colour = style.method_colour(method)
        axis.plot([100 * interval.low, 100 * interval.high], [row, row], color=colour, linewidth=1)
        (dot,) = axis.plot([100 * chance], [row], "o", color=colour, markersize=4)
        hover.describe(dot, [f"{name_of(method)}: {chance:.0%} {interval.text('.0%', '')}"])
    if others:
        axis.axvline(50, color="black", linewidth=0.6)
        axis.set_yticks(range(len(others)), [name_of(method) for method in others])
        axis.set_ylim(len(others) - 0.5, -0.5)
        axis.set_xlim(-3, 103)


@artefact("aggregate-curves", "figure", study=EVERY_METHOD)
def aggregate_curves(studies: Studies) -> Figure:
    """Draw a panel a method: test success averaged over environments, its mean and every training seed."""
    runs = _trained(studies)
    found = strata(runs)
    tables = {method: _curves([run for run in runs if run.method == method]) for method in ordered(found)}
    columns = min(5, len(tables)) or 1
    rows = -(-len(tables) // columns) or 1
    figure, axes = style.panels(rows, columns, style.PAGE, 0.4 + 1.35 * rows, sharex=True, sharey=True)
    reference = tables.get("grpo", pd.DataFrame())
    for i, (axis, (method, table)) in enumerate(zip(axes, tables.items())):
        _draw_seeds(axis, method, table, reference)
        axis.set_xlabel("Updates (%)" if i >= len(tables) - columns else "")
        axis.set_ylabel("Test success (%)" if i % columns == 0 else "")
    for axis in axes[len(tables) :]:
        axis.set_visible(not tables)
    if tables:
        style.percent(axes[0])
    else:
        axes[0].set(xlabel="Updates (%)", ylabel="Test success (%)")
        style.nothing(axes[0], "no environment has two methods" if runs else "not run")
    places = " and ".join(sorted({environment_name(run.env) for run in runs if run.method in found}))
    seeds = style.counted({name_of(m): [run for run in runs if run.method == m] for m in tables})
    caption = (
        f"Test success over training, averaged over {places or 'no environment'} (tier {studies.tier}). Thick: mean; "
        f"thin: each training seed ({seeds}). Dotted: the mean of GRPO."
    )
    return Figure(caption, figure, [run for run in runs if run.method in found])


def _curves(runs: Sequence[Run]) -> pd.DataFrame:
    """Return (progress in per cent, training seeds): the mean over the environments that have the seed."""
    by_seed = grouped(runs, lambda run: run.seed)
    seeds = {seed: np.mean([_curve(run) for run in same], axis=0) for seed, same in by_seed.items()}
    return pd.DataFrame({seed: seeds[seed] for seed in sorted(seeds)}, index=pd.Index(_PROGRESS, name="progress"))


def _curve(run: Run) -> np.ndarray:
    rows = run.episodes[run.episodes["split"] == "test"]
    means = {int(str(update)): 100 * float(np.mean(same)) for update, same in rows.groupby("update")["success"]}
    return np.interp(_PROGRESS, [100 * update / run.updates for update in means], list(means.values()))


def _draw_seeds(axis: Axes, method: str, table: pd.DataFrame, reference: pd.DataFrame) -> None:
    colour, name = style.method_colour(method), name_of(method)
    axis.set_title(name)
    if not reference.empty:
        axis.plot(reference.index, reference.mean(axis=1), color=style.GREY, linewidth=0.8, linestyle=":")
    for seed in table:
        (thin,) = axis.plot(table.index, table[seed], color=colour, linewidth=0.6, alpha=0.6)
        hover.describe(
            thin, [f"{name}, seed {seed}, {x:.0f} % of the updates: {y:.1f}" for x, y in table[seed].items()]
        )
    (mean,) = axis.plot(table.index, table.mean(axis=1), color=colour, linewidth=1.8)
    texts = [f"{name}, mean of {table.shape[1]} seeds: {y:.1f}" for y in table.mean(axis=1)]
    hover.describe(mean, texts)
