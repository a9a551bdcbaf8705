"""What the confidence gate finds to work on: gate-activation and supp-gate-diagnostics."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis.artefact import Figure, artefact
from analysis.methods import COLOURS
from analysis.runs import Study, records
from analysis.style import (
    COLUMN,
    ENVIRONMENTS,
    GREY,
    PAGE,
    band,
    bands_note,
    by_seed,
    if_empty,
    legend_above,
    letters,
    over_updates,
    panels,
    seeds,
    seeds_by_environment,
    unlogged,
)

BUCKETS = {"1": "once", "2_3": "2–3", "4_7": "4–7", "8_up": "8 or more"}
# Coverage of the two kinds: of records a thick line, of states a thin one.
_KINDS = {"record": ("of rollout records", 1.6), "state": ("of unique graph states", 0.7)}
_SHADES = ("#DDDDDD", "#AACCDD", "#5599BB", "#225577")  # light to dark: legible in grey


@artefact("gate-activation", "figure", study="main_webshop")
def gate_activation(study: Study) -> Figure:
    runs = _gated(study)
    figure, (axis,) = panels(1, 1, COLUMN, 1.9)
    over_updates(axis, "Gate coverage (%)")
    axis.set_ylim(0, 100)
    for kind, (name, width) in _KINDS.items():
        table = 100 * by_seed(runs.metrics, _coverage(kind))
        band(axis, table, COLOURS["gated_bepo"], label=name, linewidth=width)
    legend_above(figure, axis.lines, columns=2)
    if_empty(axis, bool(runs.records))
    counts = {"Gated-BEPO": seeds(runs.records)} if runs.records else {}
    notes = unlogged([runs], map(_coverage, _KINDS))
    return Figure(f"WebShop gate coverage (tier {study.scale}). {bands_note(counts)}", figure, runs.records, notes)


@artefact("supp-gate-diagnostics", "figure", study=("main_alfworld", "main_webshop"))
def gate_diagnostics(studies: dict[str, Study]) -> Figure:
    runs = {name.removeprefix("main_"): _gated(study) for name, study in studies.items()}
    figure, axes = panels(2, 2, PAGE, 3.8)
    coverage, sizes, repetition, buckets = axes
    over_updates(coverage, "Gate coverage (%)", "Gate activation")
    coverage.set_ylim(0, 100)
    over_updates(sizes, "States per group", "Graph-state counts")
    over_updates(repetition, "Visits per state", "State repetition")
    for env, study in runs.items():
        name, colour, dash = ENVIRONMENTS[env]
        frame = study.metrics
        for kind, (_, width) in _KINDS.items():
            band(coverage, 100 * by_seed(frame, _coverage(kind)), colour, linestyle=dash, linewidth=width)
        band(sizes, by_seed(frame, "credit/states_per_group"), colour, linestyle=dash, label=name)
        band(repetition, by_seed(frame, "credit/visits_per_state"), colour, linestyle=dash, label=name)
    kinds = [Line2D([], [], color=GREY, linewidth=width, label=f"(a) {name}") for name, width in _KINDS.values()]
    legend_above(figure, [*sizes.lines, *kinds] if sizes.lines else [], columns=4)
    _buckets(buckets, runs)
    for axis in axes:
        if_empty(axis, any(study.records for study in runs.values()))
    letters(axes)
    counts = seeds_by_environment(runs)
    caption = (
        "Shared-state and gate diagnostics of the main Gated-BEPO runs, matched and counted within each rollout group "
        f"(tier {next(iter(studies.values())).scale}). {bands_note(counts)} (d): records by how often their state "
        "occurs in its group, at the first and the last update."
    )
    names = [*map(_coverage, _KINDS), "credit/states_per_group", "credit/visits_per_state", *map(_bucket, BUCKETS)]
    return Figure(caption, figure, records(runs.values()), unlogged(runs.values(), names))


def _coverage(kind: str) -> str:
    return f"credit/gate_{kind}_coverage"


def _bucket(visits: str) -> str:
    return f"credit/records_visits_{visits}"


def _gated(study: Study) -> Study:
    return study.only(lambda run: run.method == "gated_bepo" and run.model == "small")


def _buckets(axis: Axes, runs: dict[str, Study]) -> None:
    """Stacked shares of records at the ends of training."""
    axis.set_title("Repetition buckets")
    axis.set_xlabel("Share of records (%)")
    labels = []
    for env, study in runs.items():
        frame = study.metrics
        if not set(map(_bucket, BUCKETS)) <= set(frame):
            continue
        for when, update in (("first", frame["update"].min()), ("last", frame["update"].max())):
            at = frame[frame["update"] == update]
            left = 0.0
            for (bucket, name), shade in zip(BUCKETS.items(), _SHADES):
                share = 100 * at[_bucket(bucket)].mean()
                first = name if not labels else None
                axis.barh(len(labels), share, left=left, color=shade, label=first, height=0.7, linewidth=0)
                left += share
            labels.append(f"{ENVIRONMENTS[env][0]}\n{when}")
    if not labels:
        return
    axis.set_yticks(range(len(labels)), labels)
    axis.invert_yaxis()
    axis.set_xlim(0, 100)
    axis.grid(axis="y", visible=False)
    axis.legend(title="state visited", title_fontsize=6.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
