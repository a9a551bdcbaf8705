"""Figure supp-rl-signals: optimisation, advantage and response-length traces of the main Gated-BEPO runs."""

from __future__ import annotations

from analysis.artefact import Figure, artefact
from analysis.runs import Study, records
from analysis.style import (
    ENVIRONMENTS,
    PAGE,
    band,
    bands_note,
    by_seed,
    if_empty,
    legend_above,
    letters,
    over_updates,
    panels,
    percent,
    seeds_by_environment,
    unlogged,
)

_PANELS = (
    ("train/entropy", "Policy entropy", "nats a token", 1),
    ("train/grad_norm", "Actor gradient norm", "norm before clipping", 1),
    ("credit/advantage_std", "Final-advantage deviation", "std over records", 1),
    ("credit/token_advantage_mean", "Token-advantage mean", "mean over tokens", 1),
    ("train/response_length", "Mean response length", "tokens", 1),
    ("train/response_clip_ratio", "Response-length clipping", "responses cut (%)", 100),
)


@artefact("supp-rl-signals", "figure", study=("main_alfworld", "main_webshop"))
def rl_signals(studies: dict[str, Study]) -> Figure:
    runs = {
        name.removeprefix("main_"): study.only(lambda run: run.method == "gated_bepo" and run.model == "small")
        for name, study in studies.items()
    }
    figure, axes = panels(2, 3, PAGE, 3.6)
    for axis, (metric, title, unit, factor) in zip(axes, _PANELS):
        over_updates(axis, unit, title)
        for env, study in runs.items():
            name, colour, dash = ENVIRONMENTS[env]
            band(axis, factor * by_seed(study.metrics, metric), colour, linestyle=dash, label=name)
        if_empty(axis, any(study.records for study in runs.values()))
    if axes[-1].lines:
        percent(axes[-1], least=1)
    legend_above(figure, max((axis.lines for axis in axes), key=len), columns=2)
    letters(axes)
    counts = seeds_by_environment(runs)
    scale = next(iter(studies.values())).scale
    caption = f"Training diagnostics of the main Gated-BEPO runs (tier {scale}). {bands_note(counts)}"
    return Figure(caption, figure, records(runs.values()), unlogged(runs.values(), (metric for metric, *_ in _PANELS)))
