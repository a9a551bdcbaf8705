"""What ``python -m bepo.lab record`` has measured for the paper (``paper/lab/*.csv``), and ``paper/lab.yaml``."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
import yaml
from jaxtyping import Float

from analysis.data.methods import row_label
from bepo.core.places import PAPER

PLAN, RECORDED = PAPER / "lab.yaml", PAPER / "lab"
DEFAULT_SETTING = "group_size=8"
"""The words of a setting with nothing but defaults."""
LEARNED = "seeds=20"
"""The words of a setting of ``lab learn`` with nothing but defaults."""
NOT_ALIASED = " aliased_policy=false"
"""The end of a setting in which the estimators see aliased states and the policy sees the hidden ones."""
_DEFAULTS = {"group_size": 8.0}
Kind = Literal["fidelity", "bias", "learning", "sampled", "gain"]
"""What is recorded: the files of ``paper/lab``."""
OverWorlds = Float[np.ndarray, " B"]
"""A measure in B worlds."""


@dataclass(frozen=True)
class LabRows:
    """The rows of one file. A cell is a setting and an estimator, both in the words of the command line."""

    rows: pd.DataFrame

    @cached_property
    def _by_cell(self) -> Mapping[tuple[str, ...], OverWorlds]:
        worlds = [column for column in self.rows if str(column).isdecimal()]
        keys = self.rows[["at", "estimator", "measure"]].itertuples(index=False, name=None)
        return {key: row[~np.isnan(row)] for key, row in zip(keys, self.rows[worlds].to_numpy(float))}

    def values(self, at: str, estimator: str, measure: str = "error") -> OverWorlds | None:
        """Return a measure of a cell over worlds; None if it is not recorded."""
        return self._by_cell.get((at, estimator, measure))

    def along(self, dial: str, estimator: str, measure: str = "error") -> dict[float, OverWorlds]:
        """Return a measure by the value of a dial, all others at their defaults."""
        settings = {self._value(at, dial): at for at in dict.fromkeys(self.rows["at"]) if self._varies(at, dial)}
        points = {x: self.values(at, estimator, measure) for x, at in sorted(settings.items())}
        return {x: values for x, values in points.items() if values is not None}

    @staticmethod
    def _varies(at: str, dial: str) -> bool:
        words = at.removesuffix(NOT_ALIASED)
        return at == DEFAULT_SETTING or (words.startswith(f"{dial}=") and " " not in words)

    @staticmethod
    def _value(at: str, dial: str) -> float:
        words = at.removesuffix(NOT_ALIASED)
        return float(words.removeprefix(f"{dial}=")) if words.startswith(dial) else _DEFAULTS.get(dial, 0.0)


@cache
def recorded(kind: Kind) -> LabRows:
    """Return the recorded rows of a kind of measurement; none if nothing is recorded."""
    path = RECORDED / f"{kind}.csv"
    empty = pd.DataFrame(columns=["digest", "at", "estimator", "measure"])
    return LabRows(pd.read_csv(path) if path.exists() else empty)


@cache
def plan() -> Mapping[str, Any]:
    """Return ``paper/lab.yaml``."""
    return yaml.safe_load(PLAN.read_text(encoding="utf-8"))


def label_of(words: str) -> str:
    """Return the printed name of an estimator or preset with its settings."""
    if words in plan()["names"]:
        return plan()["names"][words]
    return row_label(words)


def printed_setting(at: str) -> str:
    """Return a setting as a table prints it, such as ``K = 8, slip 0.1``."""
    words = at.removesuffix(NOT_ALIASED).replace("=", " ").replace("group_size", "K =")
    return words.removeprefix("world ")


@cache
def learned_speed() -> Mapping[str, float]:
    """Return success in training of ``lab learn`` on Sokoban, averaged over updates and seeds, by estimator.

    Empty if learning is not recorded.
    """
    rows = recorded("learning")
    every = {words: rows.values(LEARNED, words, "training") for words in dict.fromkeys(rows.rows["estimator"])}
    return {words: float(values.mean()) for words, values in every.items() if values is not None}
