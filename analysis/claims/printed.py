"""Check claims against the paper's printed numbers. The only tolerance is their rounding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from analysis.claims.claims import Claim
from analysis.claims.expression import Expression
from analysis.claims.formula import Formula, Inequality, Relation
from analysis.contrast import Contrast
from analysis.data.reported import EntryKey, Reported, last_unit

# Training seeds behind each number of a table (Section "Experimental Setup"); one for tables that are not named.
_TRAINED = {"main-results": 3, "sokoban-main": 3, "qwen3-results": 3}
_EXACT = 1e-6  # rounding of floating-point arithmetic
_ORDER = ("no", "by rounding", "yes")  # from the worst

AllReported = Mapping[EntryKey, Reported]


@dataclass(frozen=True)
class Range:
    """A quantity and the bounds of its rounding."""

    text: str
    value: float
    low: float
    high: float

    def above_zero(self) -> str:
        """Return whether it is above zero: ``yes`` as printed, ``by rounding``, or ``no``."""
        return "yes" if self.value > 0 else "by rounding" if self.high + _EXACT > 0 else "no"

    def meets(self, other: "Range") -> bool:
        """Return whether both can be the same number."""
        return self.low <= other.high + _EXACT and other.low <= self.high + _EXACT


@dataclass(frozen=True)
class Consistency:
    """Whether a claim agrees with the printed numbers: ``yes``, ``by rounding`` (only), ``no``, or ``not printed``.

    ``worst`` is the size of the comparison that decided, ``stated`` the size that the text gives it. ``separated`` says
    whether the claim holds beyond the printed deviations (95 %), None where they cannot tell.
    """

    verdict: str
    worst: Range | None = None
    stated: float | None = None
    separated: bool | None = None


def consistency(claim: Claim, printed: AllReported) -> Consistency:
    """Check a claim against the printed numbers and against its stated sizes."""
    sizes = [rounded(claim, comparison.size, printed) for comparison in claim.comparisons]
    if None in sizes:
        return Consistency("not printed")
    outcomes = [_outcome(claim, comparison, printed) for comparison in claim.comparisons]
    stated = [None if size is None else rounded(claim, size, printed) for size in claim.stated]
    for i, (size, said) in enumerate(zip(sizes, stated)):
        outcomes[i] = "no" if said and size and not said.meets(size) else outcomes[i]
    margins = [_margin(claim, comparison, printed) for comparison in claim.comparisons]
    worst = min(range(len(sizes)), key=lambda i: (_ORDER.index(outcomes[i]), margins[i]))
    said = stated[worst]
    separated = None if claim.reason else _separated(claim, printed)
    return Consistency(outcomes[worst], sizes[worst], said.value if said else None, separated)


def _margin(claim: Claim, comparison: Relation, printed: AllReported) -> float:
    """Return by how much a comparison holds, in units of its rounding."""
    gap = rounded(claim, comparison.difference, printed)
    if gap is None:
        return 0.0
    excess = {">": gap.value, "<": -gap.value, "=": -abs(gap.value), "~": comparison.margin - abs(gap.value)}
    return excess[comparison.sign] / max(gap.high - gap.low, _EXACT)


def _outcome(claim: Claim, comparison: Relation, printed: AllReported) -> str:
    if comparison.sign == "=":
        size = rounded(claim, comparison.difference, printed)
        return "yes" if size and size.low - _EXACT <= 0 <= size.high + _EXACT else "no"
    return _of_formula(claim, comparison.formula, printed)


def _of_formula(claim: Claim, formula: Formula, printed: AllReported) -> str:
    if isinstance(formula, Inequality):
        size = rounded(claim, formula.quantity, printed)
        return size.above_zero() if size else "no"
    outcomes = [_of_formula(claim, part, printed) for part in formula.parts]
    return (min if formula.word == "and" else max)(outcomes, key=_ORDER.index)


def _printed_term(claim: Claim, term: str, printed: AllReported) -> str:
    """Return a mean, or for ``name.std`` a deviation, as printed; empty if the paper does not print it."""
    entry = printed.get(claim.entries[term.removesuffix(".std")])
    text = "" if entry is None else entry.std if term.endswith(".std") else entry.mean
    try:
        return text if isfinite(float(text)) else ""
    except ValueError:
        return ""


def rounded(claim: Claim, expression: Expression, printed: AllReported) -> Range | None:
    """Return a quantity of a claim's printed numbers with its rounding; None if some are not printed."""
    texts = {term: _printed_term(claim, term, printed) for term in expression.terms}
    if not all(texts.values()):
        return None
    values = {term: float(text) for term, text in texts.items()}
    value = expression(values)
    slack = sum(abs(slope) * float(last_unit(texts[term])) / 2 for term, slope in expression.gradient(values).items())
    if not expression.terms and "." in expression.text:  # a size that the claim states is rounded too
        slack = float(last_unit(expression.text)) / 2
    return Range(expression.text, value, value - slack, value + slack)


def printed_interval(claim: Claim, quantity: Expression, printed: AllReported) -> tuple[float, float, float] | None:
    """Return a quantity of printed means and its 95 % interval (Welch) from printed deviations over training seeds.

    Return None if the paper does not print all of them.
    """
    names = sorted(quantity.names)
    means, deviations = ([_printed_term(claim, f"{n}{end}", printed) for n in names] for end in ("", ".std"))
    seeds = [_TRAINED.get(claim.entries[name][0], 0) for name in names]
    if quantity.names != quantity.terms or not all((*means, *deviations, *seeds)):
        return None
    values = dict(zip(names, map(float, means)))
    gradient = quantity.gradient(values)
    weights = [gradient[name] for name in names]
    contrast = Contrast.of_deviations(quantity(values), weights, list(map(float, deviations)), seeds)
    return contrast.value, contrast.interval.low, contrast.interval.high


def _separated(claim: Claim, printed: AllReported) -> bool | None:
    """Return whether the claim holds throughout Welch's intervals of the printed means; None without deviations."""
    return _holds_throughout(claim, claim.formula, printed)


def _holds_throughout(claim: Claim, formula: Formula, printed: AllReported) -> bool | None:
    if isinstance(formula, Inequality):
        interval = printed_interval(claim, formula.quantity, printed)
        return None if interval is None else interval[1] > 0
    parts: Sequence[bool | None] = [_holds_throughout(claim, part, printed) for part in formula.parts]
    if None in parts:
        return None
    return all(parts) if formula.word == "and" else any(parts)
