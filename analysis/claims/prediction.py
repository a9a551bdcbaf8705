"""The declared test of docs/lab.md: does an estimator's fidelity in the lab predict how fast language models learn?

An interval over blocks is for these settings; one over settings is for other estimators, and wider.

Sizes: S settings, B blocks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from jaxtyping import Float

from analysis.contrast import Interval
from analysis.data.lab import RECORDED
from analysis.data.statistics import quantiles, spearman

DECLARED = RECORDED / "declared.csv"
SIGN_OF: Mapping[str, int] = {"error": -1, "gradient_efficiency": 1}
"""The measures, with the sign of the correlation with speed that is predicted."""
SETTINGS: Mapping[str, Sequence[str]] = {"primary": ["primary"], "all": ["primary", "variants"], "newer": ["newer"]}
"""The compared settings, by the groups of paper/lab/declared.csv."""
JUDGED = ("primary", "newer")
ALL_BLOCKS = range(100, 116)
FEWEST = 6
LEVEL = 0.05 / len(SIGN_OF)
"""The one-sided level of each measure over judged settings (Bonferroni)."""
_RESAMPLES, _PERMUTATIONS = 10_000, 100_000


@dataclass(frozen=True)
class Prediction:
    """One measure over some settings, and their speed in the blocks that all of them have."""

    measure: str
    settings: str
    judged: bool
    fidelity: Float[np.ndarray, " S"]
    blocks: Sequence[int]
    speed: Float[np.ndarray, "S B"]

    @property
    def enough(self) -> bool:
        """Whether there are enough blocks for the test."""
        return len(self.blocks) >= FEWEST

    @cached_property
    def correlation(self) -> float:
        """Spearman's correlation with speed; positive if the sign is as predicted."""
        return float(spearman(self._predicted, self.speed.mean(1)))

    @cached_property
    def interval(self) -> Interval:
        """The 95 % interval over 10,000 resamples of blocks (percentiles)."""
        rng, n = np.random.default_rng(0), len(self.blocks)
        counts = rng.multinomial(n, np.full(n, 1 / n), size=_RESAMPLES)
        return quantiles(spearman(self._predicted, counts @ self.speed.T / n))

    @cached_property
    def over_settings(self) -> Interval:
        """The 95 % interval over 10,000 resamples of settings (percentiles): for other estimators of this kind."""
        return over_settings(self._predicted, self.speed.mean(1))

    @property
    def text(self) -> str:
        """The correlation with its intervals over blocks and over settings."""
        blocks, settings = (interval.text(".2f", "") for interval in (self.interval, self.over_settings))
        return f"{self.correlation:.2f} {blocks}, over settings {settings}"

    @cached_property
    def p(self) -> float:
        """The one-sided p over 100,000 permutations of the settings."""
        rng = np.random.default_rng(1)
        order = rng.permuted(np.tile(np.arange(len(self.fidelity)), (_PERMUTATIONS, 1)), axis=1)
        permuted = spearman(self._predicted, self.speed.mean(1)[order])
        return float((1 + (permuted >= self.correlation - 1e-12).sum()) / (1 + _PERMUTATIONS))

    @property
    def verdict(self) -> str:
        """The verdict, if one was declared."""
        if not self.enough:
            return f"not enough blocks ({len(self.blocks)} of {FEWEST})"
        if not self.judged:
            return "none declared"
        return "predicts learning" if self.p < LEVEL else "not shown"

    @property
    def _predicted(self) -> Float[np.ndarray, " S"]:
        return SIGN_OF.get(self.measure, 1) * self.fidelity


def over_settings(measure: Float[np.ndarray, " S"], speed: Float[np.ndarray, " S"]) -> Interval:
    """Return the 95 % interval of Spearman's correlation over 10,000 resamples of the settings (percentiles)."""
    drawn = np.random.default_rng(2).integers(len(measure), size=(_RESAMPLES, len(measure)))
    return quantiles(spearman(measure[drawn], speed[drawn]))


def predictions(speed: pd.DataFrame, learned: Mapping[str, float]) -> list[Prediction]:
    """Return every declared correlation. ``speed``: blocks by rows; ``learned``: speed in the lab by setting."""
    declared = pd.read_csv(DECLARED)
    rows = []
    for settings, groups in SETTINGS.items():
        chosen = declared[declared["group"].isin(groups)]
        in_blocks = speed.reindex(index=ALL_BLOCKS, columns=chosen["row"]).dropna()
        shared, table = in_blocks.index.tolist(), in_blocks.to_numpy().T
        judged = settings in JUDGED
        rows += [Prediction(name, settings, judged, np.array(chosen[name], float), shared, table) for name in SIGN_OF]
        if set(chosen["setting"]) <= set(learned):
            values = np.array([learned[name] for name in chosen["setting"]])
            rows.append(Prediction("training", settings, False, values, shared, table))
    return rows
