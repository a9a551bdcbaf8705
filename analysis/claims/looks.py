"""The primary claims about blocks (``paper/blocks.yaml``), and their group-sequential test.

A block is a warm start, a task order and a training seed that every method shares. Claims are tested at a few looks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import yaml
from jaxtyping import Float

from analysis.contrast import Contrast, holm_adjusted
from analysis.data.reported import PAPER
from analysis.data.runs import Run
from bepo.core.errors import UserError, unknown_choice

PLAN = PAPER / "blocks.yaml"
LATE = 0.8
"""Evaluations count for ``level`` after this share of the updates."""
_FIELDS = ("env", "measure", "more", "less", "source")


@cache
def speed(run: Run) -> float:
    """Return the success in training in per cent, averaged over all updates."""
    return 100 * run.mean("train/success")


@cache
def level(run: Run) -> float:
    """Return the success on all held-out tasks in per cent, averaged over the evaluations late in training."""
    return late_success(run, run.episodes)


def late_success(run: Run, rows: pd.DataFrame) -> float:
    """Return the success in some episodes of a run in per cent, averaged over the evaluations late in training."""
    updates, success = rows["update"].to_numpy(), rows["success"].to_numpy()
    late = np.unique(updates[updates > LATE * run.updates])
    return 100 * float(np.mean([np.mean(success[updates == update]) for update in late]))


@cache
def unseen(run: Run) -> float:
    """Return ``level`` on the held-out tasks of the validation split alone (ALFWorld: scenes that training lacks)."""
    rows = run.episodes
    return late_success(run, rows.loc[rows["split"] == "validation"])


BLOCK_MEASURES: Mapping[str, Callable[[Run], float]] = {"speed": speed, "level": level}
"""The measures that tables of blocks show."""
MEASURES_OF_TESTS = {**BLOCK_MEASURES, "unseen": unseen}


@dataclass(frozen=True)
class Look:
    """A look at the first ``blocks`` blocks, with Holm's procedure at a two-sided ``level``."""

    blocks: int
    level: float


@dataclass(frozen=True)
class BlockClaim:
    """A claim that a measure is higher for the row ``more`` than for the row ``less``.

    ``source`` says what lets expect it: the paper, the lab, or runs that were seen.
    """

    env: str
    measure: str
    more: str
    less: str
    source: str

    @property
    def id(self) -> str:
        """Its name: ``sokoban speed: gated_bepo > grpo``."""
        return f"{self.env} {self.measure}: {self.more} > {self.less}"


@dataclass(frozen=True)
class Plan:
    """The blocks in their order, the looks, and the primary claims."""

    blocks: tuple[int, ...]
    looks: tuple[Look, ...]
    claims: tuple[BlockClaim, ...]


def read_plan(path: Path = PLAN) -> Plan:
    """Return the plan. Raises ``UserError`` for unknown fields and measures."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    claims = tuple(_claim(path, item) for item in content["claims"])
    if len({claim.id for claim in claims}) < len(claims):
        raise UserError(f"{path}: two claims are equal")
    return Plan(tuple(content["blocks"]), tuple(Look(**look) for look in content["looks"]), claims)


def _claim(path: Path, item: dict[str, Any]) -> BlockClaim:
    if set(item) != set(_FIELDS):
        raise UserError(f"{path}: {item}: its fields must be {', '.join(_FIELDS)}")
    if item["measure"] not in BLOCK_MEASURES:
        raise unknown_choice(f"{path}: measure", item["measure"], BLOCK_MEASURES)
    return BlockClaim(**item)


Verdict = Literal["holds", "reversed", "undecided"]


@dataclass(frozen=True)
class Tested:
    """A claim with the differences of its blocks, in the plan's order, and what the looks decided.

    ``look`` is the look that decided it; None if undecided. ``values`` are the differences that the verdict rests on:
    those of the deciding look, or all.
    """

    claim: BlockClaim
    values: Float[np.ndarray, " n"]
    look: Look | None

    @property
    def verdict(self) -> Verdict:
        """Whether the claim holds, is reversed, or is undecided."""
        if self.look is None:
            return "undecided"
        return "holds" if self.values.mean() > 0 else "reversed"

    @cached_property
    def p(self) -> float:
        """Student's two-sided p, not corrected; 1 if no test is possible."""
        return Contrast.over(self.values).p()


def decide(plan: Plan, differences: Mapping[BlockClaim, Mapping[int, float]]) -> list[Tested]:
    """Test every claim at every look, and return them in the plan's order.

    ``differences`` has the difference of a claim by block. At a look, a claim counts with p = 1 unless it has all of
    the look's blocks.
    """
    deciding: dict[BlockClaim, Look] = {}
    for look in plan.looks:
        still = [claim for claim in plan.claims if claim not in deciding]
        p = [_p_at(plan, look, differences.get(claim, {})) for claim in still]
        deciding |= {still[i]: look for i in rejected(p, look.level)}
    return [_tested(plan, claim, differences.get(claim, {}), deciding.get(claim)) for claim in plan.claims]


def rejected(p: Sequence[float], level: float) -> list[int]:
    """Return, for each hypothesis, whether Holm's step-down procedure rejects it (Holm, 1979)."""
    return np.flatnonzero(holm_adjusted(p) <= level).tolist() if p else []


def _p_at(plan: Plan, look: Look, by_block: Mapping[int, float]) -> float:
    first = plan.blocks[: look.blocks]
    return Contrast.over([by_block[block] for block in first]).p() if set(first) <= by_block.keys() else 1.0


def _tested(plan: Plan, claim: BlockClaim, by_block: Mapping[int, float], look: Look | None) -> Tested:
    used = plan.blocks[: look.blocks] if look else plan.blocks
    return Tested(claim, np.array([by_block[block] for block in used if block in by_block]), look)
