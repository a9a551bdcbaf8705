"""What the printed numbers and the runs of a tier say of the paper's claims."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite, nan
from pathlib import Path

from analysis.claims.claims import CLAIMS, Claim, Relation, read
from analysis.claims.expression import Expression
from analysis.data.reported import EntryKey, Reported, all_entries, last_unit
from analysis.data.statistics import NO_INTERVAL, Sample, combination, half_width
from analysis.grid.table import Entry

_TRAINED = {"main-results": 3, "sokoban-main": 3, "qwen3-results": 3}  # training seeds (Section "Experimental Setup")
_EXACT = 1e-6  # rounding of our own arithmetic

AllReported = Mapping[EntryKey, Reported]


@dataclass(frozen=True)
class Range:
    """A quantity with what it may be off by; ``seeds`` are the training seeds behind it, 0 for printed numbers."""

    text: str
    value: float
    low: float
    high: float
    seeds: int = 0

    def outcome(self, relation: Relation) -> str:
        """Does the relation hold as printed (``yes``), only ``by rounding``, or not at all (``no``)?"""
        if relation.sign == "=":
            return "yes" if self.low - _EXACT <= relation.bound <= self.high + _EXACT else "no"
        if relation.holds(self.value, self.value):
            return "yes"
        return "no" if relation.holds(self.low - _EXACT, self.high + _EXACT) is False else "by rounding"

    def margin(self, relation: Relation) -> float:
        """Return how far the quantity is on the right side, in units of what it may be off by."""
        width = max((self.high - self.low) / 2, _EXACT) if isfinite(self.high - self.low) else 1.0
        excess = self.value - relation.bound
        return {">": excess, "<": -excess, "=": -abs(excess)}[relation.sign] / width


@dataclass(frozen=True)
class Consistency:
    """Whether a claim agrees with the printed numbers: ``yes``, ``by rounding`` (only), ``no``, or ``not printed``.

    ``worst`` is the quantity that decided, ``stated`` the size that the text gives. ``separated`` says whether the
    relation holds beyond the printed deviations (95 %), None where they cannot tell.
    """

    verdict: str
    worst: Range | None = None
    stated: float | None = None
    separated: bool | None = None


@dataclass(frozen=True)
class Verdict:
    """What the runs say: supported, contradicted, undecided, not run, or – where no run decides."""

    word: str
    worst: Range | None = None
    missing: list[str] = field(default_factory=list)


def consistency(claim: Claim, printed: AllReported) -> Consistency:
    """Check a claim against the paper's printed numbers, within their rounding, and against the size it states."""
    ranges = [r for quantity in claim.quantities if (r := _rounded(claim, quantity, printed))]
    if len(ranges) < len(claim.quantities):
        return Consistency("not printed")
    worst = min(ranges, key=lambda r: r.margin(claim.relation))
    outcomes = [r.outcome(claim.relation) for r in ranges]
    verdict = next(v for v in ("no", "by rounding", "yes") if v in outcomes)
    size = _rounded(claim, claim.stated, printed) if claim.stated else None
    if size and (size.low > ranges[0].high + _EXACT or size.high < ranges[0].low - _EXACT):
        verdict, worst = "no", ranges[0]
    return Consistency(verdict, worst, size.value if size else None, _separated(claim, printed))


def _printed_term(claim: Claim, term: str, printed: AllReported) -> str:
    """Return a mean, or for ``name.std`` a deviation, as the paper prints it; empty where it does not."""
    entry = printed.get(claim.entries[term.removesuffix(".std")])
    return "" if entry is None else entry.std if term.endswith(".std") else entry.mean


def _separated(claim: Claim, printed: AllReported) -> bool | None:
    """Does the claim hold throughout Welch's interval of the printed means and deviations of several training seeds?"""
    holds = []
    for expression in claim.quantities:
        names = sorted(expression.names)
        means, stds = ([_printed_term(claim, f"{name}{end}", printed) for name in names] for end in ("", ".std"))
        seeds = [_TRAINED.get(claim.entries[name][0], 0) for name in names]
        if claim.printed_only or expression.names != expression.terms or not all((*means, *stds, *seeds)):
            return None
        values = dict(zip(names, map(float, means)))
        gradient = expression.gradient(values)
        half = half_width([gradient[name] for name in names], list(map(float, stds)), seeds)
        holds.append(claim.relation.holds(expression(values) - half, expression(values) + half) is True)
    return all(holds)


def _rounded(claim: Claim, expression: Expression, printed: AllReported) -> Range | None:
    """Return a quantity of the printed numbers, with what their rounding may hide; None if some are not printed."""
    texts = {term: _printed_term(claim, term, printed) for term in expression.terms}
    if not all(texts.values()):
        return None
    values = {term: float(text) for term, text in texts.items()}
    value = expression(values)
    slack = sum(abs(slope) * float(last_unit(texts[term])) / 2 for term, slope in expression.gradient(values).items())
    if not expression.terms and "." in expression.text:  # a size that the claim gives itself is rounded, too
        slack = float(last_unit(expression.text)) / 2
    return Range(expression.text, value, value - slack, value + slack)


def verdict(claim: Claim, samples: Mapping[EntryKey, Sample]) -> Verdict:
    """Return what the runs say.

    The claim is supported if the 95 % interval of every quantity lies where it says, contradicted if that of one does
    not. With one training seed an interval is over tasks only, and where all seeds agree there is none: both decide
    nothing.
    """
    if claim.printed_only:
        return Verdict("–")
    keys = {name: claim.entries[name] for quantity in claim.quantities for name in quantity.names}
    missing = [" | ".join(key) for key in keys.values() if key not in samples]
    if missing:
        return Verdict("not run", missing=missing)
    ranges = [_estimated(quantity, {n: samples[keys[n]] for n in quantity.names}) for quantity in claim.quantities]
    holds = [claim.relation.holds(r.low, r.high) if isfinite(r.low) and r.seeds > 1 else None for r in ranges]
    word = "contradicted" if False in holds else "supported" if all(holds) else "undecided"
    deciding = [r for r, held in zip(ranges, holds) if held is False] or ranges
    return Verdict(word, min(deciding, key=lambda r: r.margin(claim.relation)))


def _estimated(expression: Expression, samples: Mapping[str, Sample]) -> Range:
    """Return a quantity of the runs, with its 95 % interval, to first order around the means."""
    values = {}
    for term in expression.terms:
        seeds = samples[term.removesuffix(".std")].per_seed
        spread = seeds.std(ddof=1) if len(seeds) > 1 else nan
        values[term] = float(spread if term.endswith(".std") else seeds.mean())
    gradient = expression.gradient(values)
    names = sorted(expression.names)
    interval = NO_INTERVAL  # the spread of so few seeds has no useful one
    if expression.names == expression.terms:
        interval = combination([gradient[name] for name in names], [samples[name] for name in names])
    value = expression(values)
    shift = value - sum(gradient[term] * values[term] for term in gradient)
    seeds = min(len(samples[name].seeds) for name in names)
    return Range(expression.text, value, interval.low + shift, interval.high + shift, seeds)


@dataclass(frozen=True)
class Evaluated:
    """A claim with what the printed numbers and the runs of a tier say of it."""

    claim: Claim
    printed: Consistency
    runs: Verdict


def evaluate(entries: Mapping[EntryKey, Entry], path: Path = CLAIMS) -> list[Evaluated]:
    """Evaluate every claim with the entries of a tier. Raises ``UserError`` for a claim that cannot be computed."""
    printed = all_entries()
    samples = {key: entry.reproduced.sample for key, entry in entries.items() if entry.reproduced}
    claims = read(path, known=printed.keys() | entries.keys())
    return [Evaluated(claim, consistency(claim, printed), verdict(claim, samples)) for claim in claims]


def tally(evaluated: list[Evaluated]) -> dict[str, str]:
    """Return the counts that the paper's text uses."""
    words = [e.runs.word for e in evaluated]
    leads = [e.printed.separated for e in evaluated if e.printed.separated is not None]
    counts = {"claims": len(evaluated), "inconsistent": sum(e.printed.verdict == "no" for e in evaluated)}
    counts |= {"leads": len(leads), "separated_leads": sum(leads)}
    counts |= {word: words.count(word) for word in ("supported", "contradicted", "undecided")}
    counts |= {"open": words.count("not run"), "printings": words.count("–")}
    return {name: str(count) for name, count in counts.items()}
