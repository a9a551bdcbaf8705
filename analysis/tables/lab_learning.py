"""Table lab-learning: do log-linear policies learn with the same estimators fastest on all worlds?"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from analysis.data.lab import LEARNED, NOT_ALIASED, label_of, plan, recorded
from analysis.data.statistics import spearman
from analysis.grid.artefact import artefact
from analysis.grid.table import Table

_SHOWN = ("grpo", "gigpo", "gagpo_action_ratio", "graphgpo_official", "gated_bepo", "shrunk_bepo", "oracle")
_CONTROLS = ("oracle", "exact")
_RESAMPLES = 1000
Seeds = Float[np.ndarray, " P"]


@artefact("lab-learning", "table")
def lab_learning(_: object) -> Table:
    """Compare success in training between worlds, and the order of all settings with that on Sokoban."""
    base, rows = _learned(LEARNED), []
    for at in plan()["learning"]["at"]:
        here = _learned(at)
        if not set(_SHOWN) <= set(here):
            continue
        shared = [name for name in base if name in here and name not in _CONTROLS]
        order = "–" if at == LEARNED else _agreement([base[name] for name in shared], [here[name] for name in shared])
        shown = [f"{here[name].mean():.3f}" for name in _SHOWN]
        best = max(shared, key=lambda name: here[name].mean())
        rows.append([_printed(at), *shown, label_of(best), str(len(shared)), order])
    return Table(
        "Success in training of log-linear policies by world, and whether the estimators' order is that on Sokoban.",
        ["Worlds", *map(label_of, _SHOWN), "Best", "Settings", "Order as on Sokoban"],
        rows,
        [
            "Success in training over 60 updates from a start of 30 %, mean over 20 training seeds; groups of 8 unless "
            "said. Settings: the credit settings of the paper's studies and those of the declared prediction, without "
            "the oracle. Best: the one that learns fastest. Order: Spearman's correlation over settings with the first "
            f"row, with its 95 % interval by resampling training seeds ({_RESAMPLES} times, percentiles). Noise "
            "between training seeds lowers it. Policies share features between Sokoban boards, else they are tabular.",
        ],
    )


def _learned(at: str) -> Mapping[str, Seeds]:
    """Return success in training over seeds by estimator."""
    measured = recorded("learning")
    every = {name: measured.values(at, name, "training") for name in dict.fromkeys(measured.rows["estimator"])}
    return {name: values for name, values in every.items() if values is not None}


def _agreement(first: list[Seeds], second: list[Seeds]) -> str:
    """Return Spearman's correlation of the means over seeds of E estimators, with its interval."""
    rng, (a, b) = np.random.default_rng(0), (np.stack(first), np.stack(second))
    means = []
    for _ in range(_RESAMPLES):
        means.append([x[:, rng.integers(x.shape[1], size=x.shape[1])].mean(1) for x in (a, b)])
    low, high = np.percentile(spearman(*np.swapaxes(means, 0, 1)), [2.5, 97.5])
    return f"{spearman(a.mean(1), b.mean(1)):.2f} [{low:.2f}, {high:.2f}]"


def _printed(at: str) -> str:
    """Return the worlds of a setting in words."""
    words = at.removesuffix(NOT_ALIASED).split()[1:]
    settings = dict(word.split("=") for word in words)
    world = settings.pop("world", "sokoban").capitalize()
    settings.pop("worlds", None)
    said = [f"K = {value}" if name == "group_size" else f"{name} {value}" for name, value in settings.items()]
    return ", ".join([world, *said])
