"""Figures performance-profiles and aggregate-curves: methods over all environments."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis.contrast import Interval
from analysis.data.methods import environment_name, is_privileged, name_of, ordered
from analysis.data.rows import EVERY_METHOD
from analysis.data.runs import Run
from analysis.data.strata import Strata, by_environment, improvement, mean_curve, profile, profile_bands, strata
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.table import Figure
from analysis.plots import hover, style

OURS, _MODEL = "gated_bepo", "small"
_FEW_SEEDS = (
    "With few seeds such intervals are too narrow: for the mean of normal numbers their coverage is 75 % with three "
    "seeds, 84 % with five and 89 % with eight."
)
_THRESHOLDS = np.arange(0.0, 100.0, 1.0)
_PROGRESS = np.linspace(0, 100, 21)  # per cent of the updates


def _trained(studies: Studies) -> list[Run]:
    """Return the trained runs of the model that every method is trained with."""
    return [run for run in studies.pooled() if not run.is_evaluation and run.model == _MODEL]


@artefact("performance-profiles", "figure", study=EVERY_METHOD)
def performance_profiles(studies: Studies) -> Figure:
    """Draw the share of runs above each success, and the probability that Gated-BEPO ends above each method."""
    runs = _trained(studies)
    scores = strata(runs)
    methods = ordered(scores)
    figure, (profiles, chances) = style.panels(1, 2, style.PAGE, 2.5, width_ratios=(1.4, 1))
    profiles.set(xlabel="Final test success τ (%)", ylabel="Share of runs above τ (%)", title="Performance profile")
    chances.set(xlabel="Probability of improvement (%)", title="Gated-BEPO ends above ...")
    for method in methods:
        _draw_profile(profiles, method, scores[method])
    others = [method for method in methods if method != OURS] if OURS in scores else []
    _draw_chances(chances, scores, others)
    for axis in (profiles, chances):
        style.if_empty(axis, runs)
    style.name_lines(profiles, _mean_success)
    style.letters((profiles, chances))
    places = sorted({environment_name(run.env) for run in runs if run.method in scores})
    caption = (
        f"Success over {' and '.join(places) or 'no environment'} (tier {studies.tier}, model {_MODEL}): (a) share of "
        "runs that end above each success on the test tasks, with the methods' names by mean success; (b) probability "
        "that a run of Gated-BEPO ends above a run of another method. Means over environments. Bands and bars: 95 % "
        "interval, bootstrap of training seeds within each environment (Agarwal et al., 2021). No bar if all pairs of "
        "seeds agree."
    )
    left = sorted({name_of(run.method) for run in runs} - set(map(name_of, scores)))
    notes = [f"Left out, because they lack runs in some environment: {', '.join(left)}."] if left and scores else []
    notes += [_FEW_SEEDS] if scores else []
    return Figure(caption, figure, [run for run in runs if run.method in scores], notes)


def _mean_success(profile: Line2D) -> float:
    """Return the area below a profile: the mean success in per cent."""
    return float(np.asarray(profile.get_ydata(), float).mean())


def _draw_profile(axis: Axes, method: str, scores: Strata) -> None:
    share, (low, high) = 100 * profile(scores, _THRESHOLDS), profile_bands(scores, _THRESHOLDS)
    colour, name = style.method_colour(method), name_of(method)
    dashes = "--" if is_privileged(method) else "-"
    (line,) = axis.step(_THRESHOLDS, share, where="post", color=colour, linestyle=dashes, label=name)
    band = axis.fill_between(_THRESHOLDS, 100 * low, 100 * high, step="post", color=colour, alpha=0.1, linewidth=0)
    texts = [f"{name}: {s:.0f} % of runs above {t:.0f} %" for t, s in zip(_THRESHOLDS, share)]
    hover.describe(line, texts)
    for artist in (line, band):
        hover.belongs(artist, name)


def _draw_chances(axis: Axes, scores: dict[str, list[np.ndarray]], others: Sequence[str]) -> None:
    for row, method in enumerate(others):
        chance, interval = improvement(scores[OURS], scores[method])
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
    """Draw one panel per method: test success averaged over environments, with its mean and every training seed."""
    runs = _trained(studies)
    by_env = by_environment(runs)
    methods = ordered(by_env)
    columns = min(5, len(methods)) or 1
    rows = -(-len(methods) // columns) or 1
    figure, axes = style.panels(rows, columns, style.PAGE, 0.4 + 1.35 * rows, sharex=True, sharey=True)
    for i, (axis, method) in enumerate(zip(axes, methods)):
        if "grpo" in by_env:
            axis.plot(_PROGRESS, _mean(by_env["grpo"])[0], color=style.GREY, linewidth=0.8, linestyle=":")
        _draw_method(axis, method, by_env[method])
        lowest = i >= len(methods) - columns
        axis.set_xlabel("Updates (%)" if lowest else "")
        axis.tick_params(labelbottom=lowest)
        axis.set_ylabel("Test success (%)" if i % columns == 0 else "")
    for axis in axes[len(methods) :]:
        axis.set_visible(not methods)
    if methods:
        style.percent(axes[0])
    else:
        axes[0].set(xlabel="Updates (%)", ylabel="Test success (%)")
        style.nothing(axes[0], "no environment has two methods" if runs else "not run")
    shown = [run for places in by_env.values() for same in places for run in same]
    places = " and ".join(sorted({environment_name(run.env) for run in shown}))
    seeds = style.counted(
        {name_of(m): [run for run in by_env[m][0] if run.seed in _shared(by_env[m])] for m in methods}
    )
    caption = (
        f"Test success over training, averaged over {places or 'no environment'} (tier {studies.tier}, model "
        f"{_MODEL}). Thick line: mean over environments of the mean over training seeds. Band: its 95 % interval "
        f"(Welch's t, cut to 0 to 100 %). Thin lines: training seeds that every environment has ({seeds}). Dotted "
        "line: the mean of GRPO."
    )
    return Figure(caption, figure, shown)


def _shared(places: Sequence[Sequence[Run]]) -> set[int]:
    """Return the training seeds that a method has in all environments."""
    return set.intersection(*({run.seed for run in same} for same in places))


def _mean(places: Sequence[Sequence[Run]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return mean_curve([np.stack([_curve(run) for run in same]) for same in places])


def _draw_method(axis: Axes, method: str, places: Sequence[Sequence[Run]]) -> None:
    colour, name = style.method_colour(method), name_of(method)
    axis.set_title(name)
    for seed in sorted(_shared(places)):
        values = np.mean([_curve(run) for same in places for run in same if run.seed == seed], axis=0)
        (thin,) = axis.plot(_PROGRESS, values, color=colour, linewidth=0.6, alpha=0.6)
        hover.describe(
            thin, [f"{name}, seed {seed}, {x:.0f} % of the updates: {y:.1f}" for x, y in zip(_PROGRESS, values)]
        )
    mean, low, high = _mean(places)
    axis.fill_between(_PROGRESS, np.maximum(low, 0), np.minimum(high, 100), color=colour, alpha=0.15, linewidth=0)
    (line,) = axis.plot(_PROGRESS, mean, color=colour, linewidth=1.8)
    bounds = [Interval(*pair).text(".1f", "") for pair in zip(low, high)]
    hover.describe(line, [f"{name}, mean: {y:.1f} {interval}" for y, interval in zip(mean, bounds)])


def _curve(run: Run) -> np.ndarray:
    rows = run.episodes[run.episodes["split"] == "test"]
    means = {int(str(update)): 100 * float(np.mean(same)) for update, same in rows.groupby("update")["success"]}
    return np.interp(_PROGRESS, [100 * update / run.updates for update in means], list(means.values()))
