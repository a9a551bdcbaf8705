"""Figure declared-claims: the claims that were declared before the first block, with differences and verdicts."""

from collections.abc import Sequence

from analysis.claims.blocks import CLAIMED, runs_in_blocks, tested_claims
from analysis.claims.looks import Tested, read_plan
from analysis.contrast import Contrast
from analysis.data.methods import RECONSTRUCTION, environment_name, row_label
from analysis.data.rows import ROW_IN_BLOCKS
from analysis.data.runs import grouped
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.contrasts import FEWEST
from analysis.grid.table import Figure
from analysis.plots import style
from analysis.plots.hover import describe

_WIDTH = 4.4  # inches: the words stay readable on a phone
_ROW = 0.145
_MEASURES = {"speed": "in training", "level": "held-out"}
_COLOURS = {"holds": "#1B7837", "reversed": "#B2182B"}


@artefact("declared-claims", "figure", study=CLAIMED, key=ROW_IN_BLOCKS)
def declared_claims(studies: Studies) -> Figure:
    """Draw the claims of paper/blocks.yaml: means over blocks with intervals, in the colour of their verdicts."""
    used = runs_in_blocks(studies, CLAIMED)
    tested = [result for result in tested_claims(read_plan(), used) if len(result.values) >= FEWEST]
    lines = _lines(tested)
    figure, (axis,) = style.panels(1, 1, _WIDTH, 0.7 + _ROW * max(len(lines), 6))
    axis.axvline(0, color="black", linewidth=0.6)
    axis.set(xlabel="Difference in points of success (95 % interval)")
    axis.grid(axis="y", visible=False)
    axis.tick_params(axis="y", length=0)
    for place, (_, result) in enumerate(lines):
        if result:
            _draw(axis, place, result, judged=studies.tier != "smoke")
    if lines:
        axis.set_yticks(range(len(lines)), [text for text, _ in lines])
        axis.set_ylim(len(lines) - 0.4, -0.6)
        for label, (_, result) in zip(axis.get_yticklabels(), lines):
            label.set_fontweight("normal" if result else "bold")
    else:
        style.nothing(axis)
    caption = (
        f"The claims that were declared before the first block was trained (tier {studies.tier}). Green and filled: "
        "decided, it holds. Red and filled: decided, the opposite. Hollow: undecided. Verdicts are corrected for all "
        "claims and looks, intervals are not. In training: success over all updates. Held-out: success on other tasks, "
        "late in training."
    )
    return Figure(caption, figure, used, [RECONSTRUCTION] * any("ʳ" in text for text, _ in lines))


def _lines(tested: Sequence[Tested]) -> list[tuple[str, Tested | None]]:
    """Return the lines of the picture from the top: environment and measure, then their claims."""
    lines: list[tuple[str, Tested | None]] = []
    for (env, measure), same in grouped(tested, lambda result: (result.claim.env, result.claim.measure)).items():
        lines.append((f"{environment_name(env)}, {_MEASURES[measure]}", None))
        lines += [(f"{row_label(result.claim.more)} > {row_label(result.claim.less)}", result) for result in same]
    return lines


def _draw(axis: style.Axes, place: int, result: Tested, judged: bool) -> None:
    verdict = result.verdict if judged else "not judged"
    colour, contrast = _COLOURS.get(verdict, style.GREY), Contrast.over(result.values)
    axis.plot((contrast.interval.low, contrast.interval.high), (place, place), color=colour, linewidth=1.2)
    face = colour if verdict in _COLOURS else "white"
    (dot,) = axis.plot([result.values.mean()], [place], "o", color=colour, markersize=3.6, markerfacecolor=face)
    describe(dot, [f"{result.claim.id}: {contrast.text()}, {len(result.values)} blocks, {verdict}"])
