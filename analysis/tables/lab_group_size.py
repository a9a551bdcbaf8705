"""Table lab-group-size: how many trajectories a task each estimator needs for a gradient as good as GRPO's."""

import numpy as np

from analysis.data.lab import label_of, plan, recorded
from analysis.grid.artefact import artefact
from analysis.grid.table import Table
from bepo.lab.equal import REFERENCE, in_words, needed_with_interval

_TARGETS = (8, 16)
_SHOWN = (2, 8, 32)


@artefact("lab-group-size", "table")
def lab_group_size(_: object) -> Table:
    """Compare group sizes of equal gradient efficiency."""
    measured, rows = recorded("fidelity"), []
    for words in plan()["panels"]["group_size"]["estimators"]:
        curve = measured.along("group_size", words, "gradient_efficiency")
        reference = measured.along("group_size", REFERENCE, "gradient_efficiency")
        if not set(_TARGETS) <= set(curve):
            continue
        sizes = [int(k) for k in curve]
        efficiency = np.stack(list(curve.values()))
        sizes_needed = [in_words(needed_with_interval(sizes, efficiency, reference[k]), sizes) for k in _TARGETS]
        rows.append([label_of(words), *(f"{curve[k].mean():.2f}" for k in _SHOWN), *sizes_needed])
    return Table(
        "Gradient efficiency by group size, and the group size with the efficiency of GRPO.",
        ["Estimator", *(("Efficiency", f"K = {k}") for k in _SHOWN), *(("As GRPO at", f"K = {k}") for k in _TARGETS)],
        rows,
        [
            "Efficiency: E<g, true gradient> / (|true gradient| sqrt(E|g|²)), how much of a group's gradient is "
            "progress; mean over 16 Sokoban boards. As GRPO at: the group size with this efficiency, between measured "
            "sizes interpolated along log K, with its 95 % interval by resampling boards.",
        ],
    )
