"""Figures lab-gate, lab-values, lab-decay, lab-backup and lab-robustness: the lab's measures along its dials."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from matplotlib.axes import Axes

from analysis.data.lab import LabRows, OverWorlds, label_of, printed_setting, recorded
from analysis.data.methods import known_methods
from analysis.grid.artefact import artefact
from analysis.grid.table import Figure
from analysis.plots import style
from analysis.plots.lab import lab_line, scale

_FIGURES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
_DIALS = {"group_size": "K", "slip": "Slips", "aliasing": "Aliased states", "gae_lambda": "λ"}
_MEASURES = {"error": "Error", "rank": "Kendall's τ", "gain": "Gain"}
_NOTE = (
    "Mean over 16 Sokoban boards; bands: Student's 95 % interval. Error: the share of the true advantage's square that "
    "an estimate misses after the best scale. Gain: the rise in success by an update of 32 trajectories and a KL of "
    "0.1 a step, as a share of that along the true gradient. Success of the policy 30 %, K = 8 unless said. Recorded "
    "in paper/lab."
)
_COLUMNS = 3


def lab_figure(item: Mapping[str, Any], _: object) -> Figure:
    """Draw one figure of ``lab.yaml``."""
    measured, parts = recorded("fidelity"), item["axes"]
    rows = len(parts) // _COLUMNS
    figure, axes = style.panels(rows, _COLUMNS, style.PAGE, 2.3 * rows)
    for axis, part in zip(axes, parts, strict=True):
        _draw(axis, part, measured)
    style.letters(axes)
    style.name_all(figure, axes, columns=4)
    return Figure(f"{item['caption']} {_NOTE}", figure, origin="the lab, no language model")


for _item in _FIGURES:
    artefact(_item["label"], "figure")(partial(lab_figure, _item))


def _draw(axis: Axes, part: Mapping[str, Any], measured: LabRows) -> None:
    x, measure = part["x"], part["measure"]
    axis.set(title=part["title"], xlabel=_DIALS[x], ylabel=_MEASURES[measure])
    for number, (name, colour, points) in enumerate(_lines(part, measured)):
        if points:
            lab_line(axis, name, colour, number, points)
    scale(axis, x)
    if not axis.lines:
        style.nothing(axis, "not recorded")


def _lines(part: Mapping[str, Any], measured: LabRows) -> list[tuple[str, str, dict[float, OverWorlds]]]:
    """Return name, colour and points of each line."""
    x, measure = part["x"], part["measure"]
    if "of" in part:
        pairs = {at: _by_setting(part, at, measured) for at in part["at"]}
        shades = style.variant_colours(part["of"], len(pairs))
        return [(printed_setting(at), shade, points) for shade, (at, points) in zip(shades, pairs.items())]
    names = part["estimators"]
    one_method = len({words.split()[0].replace("bepo_ungated", "gated_bepo") for words in names}) < len(names)
    shades = _variants(names) if one_method else [style.method_colour(words) for words in names]
    return [(label_of(words), shade, measured.along(x, words, measure)) for words, shade in zip(names, shades)]


def _variants(names: Sequence[str]) -> list[str]:
    """Return a colour for each line: a method's own if it has its defaults, else one that no method has."""
    others = iter(style.variant_colours("gated_bepo", len(names) + 1)[1:])
    return [style.method_colour(words) if words in known_methods() else next(others) for words in names]


def _by_setting(part: Mapping[str, Any], at: str, measured: LabRows) -> dict[float, OverWorlds]:
    """Return the measure by the value of an estimator's setting."""
    prefix, points = f"{part['of']} {part['x']}=", {}
    for words in dict.fromkeys(measured.rows["estimator"]):
        value = part["default"] if words == part["of"] else words.removeprefix(prefix)
        values = measured.values(at, words, part["measure"])
        if (words == part["of"] or words.startswith(prefix)) and values is not None:
            points[float(value)] = values
    return dict(sorted(points.items()))
