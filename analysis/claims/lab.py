"""The claims about the lab's measurements (``paper/lab.yaml``), tested over worlds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import copysign, inf, isnan
from typing import Any

from analysis.claims.looks import rejected
from analysis.contrast import LEVEL, Contrast
from analysis.data.lab import DEFAULT_SETTING, LabRows, OverWorlds, label_of, plan, printed_setting


@dataclass(frozen=True)
class Part:
    """One inequality: a measure of two cells, or its growth between two settings, in the same worlds."""

    what: str
    more: OverWorlds
    less: OverWorlds

    @cached_property
    def difference(self) -> Contrast:
        """The left side minus the right side in each world."""
        return Contrast.over(self.more - self.less)

    @property
    def size(self) -> float:
        """The difference in units of its standard error."""
        contrast = self.difference
        return copysign(inf, contrast.value) if isnan(contrast.error) else contrast.value / contrast.error


@dataclass(frozen=True)
class LabClaim:
    """A claim with its inequalities, all of which must hold. ``parts`` is None if a cell is not recorded."""

    id: str
    claim: str
    at: str
    of_paper: bool
    note: str
    parts: Sequence[Part] | None

    @cached_property
    def weakest(self) -> Part | None:
        """The inequality with the smallest difference in units of its standard error."""
        return min(self.parts, key=lambda part: part.size) if self.parts else None

    @cached_property
    def p(self) -> float:
        """The two-sided p of the conjunction: the largest of its parts if all hold, else that of its opposite.

        A conjunction fails if one part is reversed: the smallest p of the reversed parts, times the number of parts
        (Holm). 1 if a cell is not recorded.
        """
        if not self.parts:
            return 1.0
        against = [part.difference.p() for part in self.parts if part.difference.value <= 0]
        every = [part.difference.p() for part in self.parts]
        return min(1.0, min(against) * len(self.parts)) if against else max(every)

    def verdict(self, decided: bool) -> str:
        """Return the verdict; ``decided`` says whether the correction over all claims leaves its p significant."""
        if self.weakest is None:
            return "not recorded"
        if not decided:
            return "undecided"
        return "holds" if self.weakest.difference.value > 0 else "reversed"


def read_claims(rows: LabRows) -> list[LabClaim]:
    """Return the claims of ``paper/lab.yaml`` with their measurements."""
    return [_claim(item, rows) for item in plan()["claims"]]


def decided(claims: Sequence[LabClaim]) -> set[str]:
    """Return the claims that Holm's procedure decides at 5 % over all claims that are recorded."""
    tested = [claim for claim in claims if claim.parts]
    return {tested[i].id for i in rejected([claim.p for claim in tested], LEVEL)}


def _claim(item: Mapping[str, Any], rows: LabRows) -> LabClaim:
    at, measure = item.get("at", DEFAULT_SETTING), item["measure"]
    pairs = item.get("all") or [item["grows"]]
    parts = [_part(pair, at, measure, rows) for pair in pairs]
    complete = [part for part in parts if part is not None]
    known = complete if len(complete) == len(parts) else None
    where = printed_setting(at) if "all" in item else _from_to(item["grows"])
    return LabClaim(item["id"], item["claim"], where, item.get("of") == "paper", item.get("note", ""), known)


def _from_to(grows: Mapping[str, str]) -> str:
    return " to ".join(printed_setting(grows[end]) for end in ("from", "to"))


def _part(pair: Mapping[str, str], at: str, measure: str, rows: LabRows) -> Part | None:
    sides = []
    for side in ("more", "less"):
        if "from" in pair:
            ends = [rows.values(pair[end], pair[side], measure) for end in ("to", "from")]
            values = None if ends[0] is None or ends[1] is None else ends[0] - ends[1]
        else:
            values = rows.values(at, pair[side], measure)
        if values is None:
            return None
        sides.append(values)
    return Part(f"{label_of(pair['more'])} > {label_of(pair['less'])}", *sides)
