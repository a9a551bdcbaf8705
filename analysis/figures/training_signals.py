"""Figures gate-activation, supp-gate-diagnostics and supp-rl-signals: metrics of the main Gated-BEPO runs."""

from math import inf

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture
from matplotlib.lines import Line2D

from analysis.data.methods import environment_name
from analysis.data.studies import Studies, StudyRuns
from analysis.grid.artefact import artefact
from analysis.grid.table import Figure
from analysis.plots import style

# Gate coverage of transitions (thick line) and of states (thin line).
_COVERAGE = {"credit/gate_transition_coverage": ("of rollout records", 1.6)}
_COVERAGE |= {"credit/gate_state_coverage": ("of unique graph states", 0.7)}
_BUCKETS = {"1": "once", "2_3": "2–3", "4_7": "4–7", "8_up": "8 or more"}
_BUCKETS = {f"credit/transitions_visits_{visits}": name for visits, name in _BUCKETS.items()}
_SHADES = ("#DDDDDD", "#AACCDD", "#5599BB", "#225577")  # light to dark: legible in grey
_SIGNALS = (
    ("train/entropy", "Policy entropy", "nats a token", 1),
    ("train/grad_norm", "Actor gradient norm", "norm before clipping", 1),
    ("credit/advantage_std", "Final-advantage deviation", "std over records", 1),
    ("credit/token_advantage_mean", "Token-advantage mean", "mean over tokens", 1),
    ("train/response_length", "Mean response length", "tokens", 1),
    ("train/response_clip_ratio", "Response-length clipping", "responses cut (%)", 100),
)
_SIGNED = ("credit/token_advantage_mean",)


@artefact("gate-activation", "figure", study="main_webshop")
def gate_activation(study: StudyRuns) -> Figure:
    """Draw the share of transitions and states with an open gate."""
    study = _gated(study)
    figure, (axis,) = style.panels(1, 1, style.COLUMN, 1.9)
    style.over_updates(axis, "Gate coverage (%)")
    axis.set_ylim(0, 100)
    for metric, (name, width) in _COVERAGE.items():
        table = 100 * style.by_seed(study.runs, metric)
        style.band(axis, table, style.method_colour("gated_bepo"), 0, 100, label=name, linewidth=width)
    style.legend_above(figure, axis.lines, columns=2)
    style.if_empty(axis, study.runs)
    note = style.bands_note({"Gated-BEPO": study.runs})
    notes = style.unlogged(study.runs, _COVERAGE)
    return Figure(f"WebShop gate coverage (tier {study.tier}). {note}", figure, study.runs, notes)


@artefact("supp-gate-diagnostics", "figure", study=("main_alfworld", "main_webshop"))
def gate_diagnostics(studies: Studies) -> Figure:
    """Draw gate coverage, states per group, visits per state, and how often states recur."""
    studies = _by_environment(studies)
    figure, axes = style.panels(2, 2, style.PAGE, 3.8)
    coverage, sizes, repetition, buckets = axes
    style.over_updates(coverage, "Gate coverage (%)", "Gate activation")
    coverage.set_ylim(0, 100)
    for env, study in studies.items():
        for metric, (_, width) in _COVERAGE.items():
            line = style.environment_line(env) | {"label": "_", "linewidth": width}
            style.band(coverage, 100 * style.by_seed(study.runs, metric), least=0, most=100, **line)
    _draw_traces(sizes, studies, "credit/states_per_group", "Graph-state counts", "States per group")
    _draw_traces(repetition, studies, "credit/visits_per_state", "State repetition", "Visits per state")
    kinds = [Line2D([], [], color=style.GREY, linewidth=w, label=f"(a) {name}") for name, w in _COVERAGE.values()]
    style.legend_above(figure, [*sizes.lines, *kinds] if sizes.lines else [], columns=4)
    _draw_buckets(buckets, studies)
    for axis in axes:
        style.if_empty(axis, studies.runs)
    style.letters(axes)
    subject = "Shared-state and gate diagnostics of the main Gated-BEPO runs, "
    subject += "matched and counted within each rollout group"
    note = " (d) Records by the number of visits to their state in the group, at the first and the last update."
    names = [*_COVERAGE, "credit/states_per_group", "credit/visits_per_state", *_BUCKETS]
    return _figure(figure, studies, subject, names, note)


@artefact("supp-rl-signals", "figure", study=("main_alfworld", "main_webshop"))
def rl_signals(studies: Studies) -> Figure:
    """Draw optimisation, advantage and response-length traces."""
    studies = _by_environment(studies)
    figure, axes = style.panels(2, 3, style.PAGE, 3.6)
    for axis, signal in zip(axes, _SIGNALS):
        _draw_traces(axis, studies, *signal)
        style.if_empty(axis, studies.runs)
    if axes[-1].lines:
        style.percent(axes[-1], least=1)
    style.legend_above(figure, max((axis.lines for axis in axes), key=len), columns=2)
    style.letters(axes)
    subject = "Training diagnostics of the main Gated-BEPO runs"
    return _figure(figure, studies, subject, [metric for metric, *_ in _SIGNALS])


def _figure(figure: Picture, studies: Studies, subject: str, metrics: list[str], note: str = "") -> Figure:
    bands = style.bands_note({environment_name(env): study.runs for env, study in studies.items()})
    caption = f"{subject} (tier {studies.tier}). {bands}{note}"
    return Figure(caption, figure, studies.runs, style.unlogged(studies.runs, metrics))


def _gated(study: StudyRuns) -> StudyRuns:
    return study.only(lambda run: run.method == "gated_bepo" and run.model == "small")


def _by_environment(studies: Studies) -> Studies:
    return Studies({name.removeprefix("main_"): _gated(study) for name, study in studies.items()})


def _draw_traces(axis: Axes, studies: Studies, metric: str, title: str, unit: str, factor: float = 1) -> None:
    """Draw a metric of each environment. All but means of signed numbers are at least 0."""
    least = -inf if metric in _SIGNED else 0
    style.over_updates(axis, unit, title)
    for env, study in studies.items():
        style.band(axis, factor * style.by_seed(study.runs, metric), least=least, **style.environment_line(env))
    if least == 0:
        style.not_below_zero(axis)


def _draw_buckets(axis: Axes, studies: Studies) -> None:
    """Draw stacked shares of transitions at both ends of training."""
    axis.set(title="Repetition buckets", xlabel="Share of records (%)")
    labels = []
    for env, study in studies.items():
        shares = {name: 100 * style.by_seed(study.runs, metric).mean(axis=1) for metric, name in _BUCKETS.items()}
        if any(share.empty for share in shares.values()):
            continue
        for when, place in (("first", 0), ("last", -1)):
            left = 0.0
            for (name, share), shade in zip(shares.items(), _SHADES):
                bar = {"left": left, "color": shade, "label": None if labels else name}
                axis.barh(len(labels), share.iloc[place], height=0.7, linewidth=0, **bar)
                left += share.iloc[place]
            labels.append(f"{environment_name(env)}\n{when}")
    if labels:
        axis.set_yticks(range(len(labels)), labels)
        axis.invert_yaxis()
        axis.set_xlim(0, 100)
        axis.grid(axis="y", visible=False)
        axis.legend(title="state visited", title_fontsize=6.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
