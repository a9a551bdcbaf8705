"""What the printed numbers and the runs of a tier say of the paper's claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from math import isfinite, nan
from pathlib import Path

from analysis.artefact import REPORTED
from analysis.cells import CellKey, Cells
from analysis.claims import CLAIMS, Claim, Relation, read
from analysis.expression import Expression
from analysis.reported import Reported, reported
from analysis.stats import Interval, Sample, combination, half_width

_TRAINED = {"main-results": 3, "sokoban-main": 3, "qwen3-results": 3}  # training seeds (Section "Experimental Setup")
_EXACT = 1e-6  # rounding of our own arithmetic


@dataclass(frozen=True)
class Range:
    """A quantity with what it may be off by."""

    text: str
    value: float
    low: float
    high: float
    seeds: int | None = None


@dataclass(frozen=True)
class Consistency:
    """``verdict``: yes; by rounding (only); no; or not printed. ``worst`` is the quantity that decided.

    ``separated`` says whether the relation holds beyond the printed deviations (95 %), None where they cannot tell.
    """

    verdict: str
    worst: Range | None = None
    stated: float | None = None
    separated: bool | None = None


@dataclass(frozen=True)
class Verdict:
    """``word``: supported, contradicted, undecided, not run, or – where no run decides."""

    word: str
    worst: Range | None = None
    missing: list[str] = field(default_factory=list)

    @property
    def one_seed(self) -> bool:
        return self.worst is not None and self.worst.seeds == 1


class Printed:
    """Every published number, by key, with half a unit of its last digit."""

    @cached_property
    def cells(self) -> dict[CellKey, Reported]:
        labels = sorted(p.stem for p in REPORTED.glob("*.csv"))
        return {(label, r.row, r.group, r.column): r for label in labels for r in reported(label)}

    def term(self, key: CellKey, deviation: bool) -> tuple[float, float] | None:
        """(number, half a unit of its last printed digit); None if it is not printed."""
        text = self.cells[key].printed[deviation] if key in self.cells else ""
        if not text:
            return None
        return float(text), 0.5 * 10.0 ** Decimal(text).as_tuple().exponent


def consistency(claim: Claim, printed: Printed) -> Consistency:
    """Does the claim hold for the paper's printed numbers, within their rounding, and in the size it states?"""
    ranges = [_rounded(claim, q, printed) for q in claim.quantities]
    if None in ranges:
        return Consistency("not printed")
    worst = min(ranges, key=lambda r: _margin(claim.relation, r))
    outcomes = [_outcome(claim.relation, r) for r in ranges]
    verdict = next(v for v in ("no", "by rounding", "yes") if v in outcomes)
    size = None
    if claim.stated:
        size = _rounded(claim, claim.stated, printed)
        if size.low > ranges[0].high + _EXACT or size.high < ranges[0].low - _EXACT:
            verdict, worst = "no", ranges[0]
    return Consistency(verdict, worst, size.value if size else None, _separated(claim, printed))


def _separated(claim: Claim, printed: Printed) -> bool | None:
    """Welch's interval from the printed means and deviations of rows with several training seeds."""
    held = []
    for expression in claim.quantities:
        keys = {name: claim.cells[name] for name in sorted(expression.names)}
        found = {n: (printed.term(k, False), printed.term(k, True), _TRAINED.get(k[0])) for n, k in keys.items()}
        if claim.printed_only or expression.names != expression.terms or any(None in f for f in found.values()):
            return None
        values = {n: mean[0] for n, (mean, _, _) in found.items()}
        gradient = expression.gradient(values)
        half = half_width(*zip(*((gradient[n], std[0], seeds) for n, (_, std, seeds) in found.items())))
        held.append(claim.relation.holds(expression(values) - half, expression(values) + half) is True)
    return all(held)


def _rounded(claim: Claim, expression: Expression, printed: Printed) -> Range | None:
    found = {t: printed.term(claim.cells[t.removesuffix(".std")], t.endswith(".std")) for t in expression.terms}
    if None in found.values():
        return None
    values = {t: v for t, (v, _) in found.items()}
    value = expression(values)
    slack = sum(abs(g) * found[t][1] for t, g in expression.gradient(values).items())
    if not expression.terms and "." in expression.text:  # a size that the claim gives itself is rounded, too
        slack = 0.5 * 10.0 ** Decimal(expression.text).as_tuple().exponent
    return Range(expression.text, value, value - slack, value + slack)


def _outcome(relation: Relation, r: Range) -> str:
    if relation.sign == "=":
        return "yes" if r.low - _EXACT <= relation.bound <= r.high + _EXACT else "no"
    if relation.holds(r.value, r.value):
        return "yes"
    return "no" if relation.holds(r.low - _EXACT, r.high + _EXACT) is False else "by rounding"


def _margin(relation: Relation, r: Range) -> float:
    """How far the quantity is on the right side, in units of what it may be off by."""
    width = max((r.high - r.low) / 2, _EXACT) if isfinite(r.high - r.low) else 1.0
    distance = {">": r.value - relation.bound, "<": relation.bound - r.value, "=": -abs(r.value - relation.bound)}
    return distance[relation.sign] / width


def verdict(claim: Claim, samples: Mapping[CellKey, Sample]) -> Verdict:
    """What the runs say: supported if the 95 % interval of every quantity lies where the claim wants it, contradicted
    if that of one lies elsewhere. With one training seed an interval is over tasks only, and where all seeds agree
    exactly there is none: nothing is decided."""
    if claim.printed_only:
        return Verdict("–")
    wanted = {name: claim.cells[name] for q in claim.quantities for name in q.names}
    missing = [" | ".join(key) for key in wanted.values() if key not in samples]
    if missing:
        return Verdict("not run", missing=missing)
    ranges = [_estimated(q, {n: samples[k] for n, k in wanted.items()}) for q in claim.quantities]
    held = [claim.relation.holds(r.low, r.high) if isfinite(r.low) and r.seeds > 1 else None for r in ranges]
    word = "contradicted" if False in held else "supported" if all(held) else "undecided"
    deciding = [r for r, h in zip(ranges, held) if h is False] or ranges
    return Verdict(word, min(deciding, key=lambda r: _margin(claim.relation, r)))


def _estimated(expression: Expression, samples: Mapping[str, Sample]) -> Range:
    values = {}
    for term in expression.terms:
        seeds = samples[term.removesuffix(".std")].per_seed
        spread = seeds.std(ddof=1) if len(seeds) > 1 else nan
        values[term] = float(spread if term.endswith(".std") else seeds.mean())
    gradient = expression.gradient(values)
    used = [samples[n] for n in sorted(expression.names)]
    seeds = min(len(s.seeds) for s in used)
    if any(term.endswith(".std") for term in expression.terms):
        found = Interval(nan, nan)  # the spread of so few seeds has no useful interval
    else:
        found = combination([gradient[n] for n in sorted(expression.names)], used)
    value = expression(values)
    shift = value - sum(gradient[t] * values[t] for t in gradient)  # first order around the means
    return Range(expression.text, value, found.low + shift, found.high + shift, seeds)


@dataclass(frozen=True)
class Evaluated:
    """A claim with what the printed numbers and the runs of a tier say of it."""

    claim: Claim
    printed: Consistency
    runs: Verdict


def evaluate(cells: Cells, path: Path = CLAIMS) -> list[Evaluated]:
    """Every claim at the tier of ``cells``. Raises ``UserError`` for a claim that cannot be computed."""
    printed = Printed()
    claims = read(path, known=frozenset(printed.cells) | frozenset(cells.by_key))
    samples = cells.samples
    return [Evaluated(claim, consistency(claim, printed), verdict(claim, samples)) for claim in claims]


def tally(evaluated: list[Evaluated]) -> dict[str, str]:
    """The counts that the paper's text uses."""
    words = [e.runs.word for e in evaluated]
    leads = [e.printed.separated for e in evaluated if e.printed.separated is not None]
    return {
        "claims": str(len(evaluated)),
        "inconsistent": str(sum(e.printed.verdict == "no" for e in evaluated)),
        "leads": str(len(leads)),
        "separated_leads": str(sum(leads)),
        **{word: str(words.count(word)) for word in ("supported", "contradicted", "undecided")},
        "open": str(words.count("not run")),
        "printings": str(words.count("–")),
    }
