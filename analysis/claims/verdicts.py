"""Verdicts on the paper's claims, from its printed numbers and from the runs of a tier."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, isnan, nan
from pathlib import Path

from analysis.claims.claims import CHECKS, CLAIMS, Claim, read
from analysis.claims.expression import Expression
from analysis.claims.formula import Inequality
from analysis.claims.inference import Decided, Estimated, Outcome, SeedValues, decide, independent, significance
from analysis.claims.measures import FINAL, OTHER_MEASURES, measured
from analysis.claims.printed import AllReported, Consistency, Range, consistency, rounded
from analysis.claims.sentences import reported, sentence
from analysis.contrast import Contrast
from analysis.data.reported import EntryKey, all_entries
from analysis.grid.table import Entry

VERDICTS = ("supported", "contradicted", "undecided", "not comparable", "not judged", "not run")
NOT_JUDGED = "smoke"
"""The tier whose runs only show that everything runs. They are not evidence."""


@dataclass(frozen=True)
class Size:
    """A stated size, the size in the runs, and its 95 % interval, whose bounds may be nan."""

    text: str
    stated: float
    value: float
    low: float
    high: float

    @property
    def word(self) -> str:
        """``within`` if the interval contains the stated size; ``smaller`` or ``larger`` if the runs' size is; else
        ``undecided``.
        """
        if isnan(self.low):
            return "undecided"
        return "within" if self.low <= self.stated <= self.high else "smaller" if self.high < self.stated else "larger"


@dataclass(frozen=True)
class Verdict:
    """The verdict of the runs: supported, contradicted, undecided, not run, not judged (tier smoke), or not comparable.

    ``tested``: the parts and p values. ``decided``: the decision after correction for the other claims. ``sizes``: the
    stated sizes beside the intervals of the runs. ``missing``: the entries without runs.
    """

    word: str
    tested: Outcome | None = None
    decided: Decided | None = None
    sizes: tuple[Size, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def deciding(self) -> Estimated | None:
        """The deciding inequality: the nearest to failing, or, if the claim fails, the clearest failure."""
        return self.tested and deciding(self.tested)


def deciding(tested: Outcome) -> Estimated:
    """Return the deciding inequality: the nearest to failing, or, if the claim fails, the clearest failure."""
    return _deciding(tested, tested.support < tested.against)


def _deciding(tested: Outcome, holds: bool) -> Estimated:
    if tested.estimated:
        return tested.estimated
    side = [part.support if holds else part.against for part in tested.parts]
    weakest = (tested.word == "and") == holds
    chosen = tested.parts[side.index((max if weakest else min)(side))]
    return _deciding(chosen, holds)


@dataclass(frozen=True)
class Evaluated:
    """A claim with its verdicts from the printed numbers and from the runs of a tier.

    ``beside``: tests on other measures of the same runs, by name; they never decide. ``counterpart``: the printed
    quantity of the inequality that decides for the runs, or None; ``reported``: the same with its unit, or empty.
    ``said``: that inequality in the runs, as a sentence.
    """

    claim: Claim
    printed: Consistency
    runs: Verdict
    beside: Mapping[str, Outcome] = field(default_factory=dict)
    counterpart: Range | None = None
    reported: str = ""
    said: str = ""


def evaluate(entries: Mapping[EntryKey, Entry], tier: str, path: Path = CLAIMS) -> list[Evaluated]:
    """Evaluate every claim with the entries of a tier. Raises ``UserError`` for a claim that cannot be computed."""
    printed = all_entries()
    claims = read(path, known=printed.keys() | entries.keys())
    verdicts = _verdicts(claims, entries, tier)
    evaluated = []
    for claim in claims:
        verdict = verdicts[claim.id]
        decisive = verdict.deciding
        counterpart = decisive and rounded(claim, decisive.inequality.quantity, printed)
        beside = _beside(claim, verdict, entries)
        said = _said(claim, verdict, entries)
        words = _reported(claim, decisive.inequality, printed) if decisive and counterpart else ""
        evaluated.append(Evaluated(claim, consistency(claim, printed), verdict, beside, counterpart, words, said))
    return evaluated


def _reported(claim: Claim, inequality: Inequality, printed: AllReported) -> str:
    terms = {term: printed[claim.entries[term.removesuffix(".std")]] for term in inequality.coefficients}
    means = {term: float(entry.std if term.endswith(".std") else entry.mean) for term, entry in terms.items()}
    return reported(claim, inequality, means)


def _said(claim: Claim, verdict: Verdict, entries: Mapping[EntryKey, Entry]) -> str:
    if verdict.deciding is None or isnan(verdict.deciding.value):
        return ""
    means = {name: float(seeds.values.mean()) for name, seeds in _values(claim, entries, FINAL).items()}
    return sentence(claim, verdict.deciding, means)


def checks(path: Path = CHECKS) -> list[tuple[Claim, Consistency]]:
    """Check the consistency of the paper."""
    printed = all_entries()
    return [(check, consistency(check, printed)) for check in read(path, known=printed)]


def _verdicts(claims: Sequence[Claim], entries: Mapping[EntryKey, Entry], tier: str) -> dict[str, Verdict]:
    verdicts, tested = {}, {}
    for claim in claims:
        missing = [" | ".join(claim.entries[n]) for n in sorted(claim.names) if not _ran(entries, claim.entries[n])]
        if missing:
            verdicts[claim.id] = Verdict("not run", missing=tuple(missing))
        elif tier in claim.not_comparable:
            verdicts[claim.id] = Verdict("not comparable")
        else:
            tested[claim.id] = significance(claim.formula, _values(claim, entries, FINAL))
    by_id = {claim.id: claim for claim in claims}
    for name, decided in decide(tested, {name: by_id[name].family for name in tested}).items():
        word = "not judged" if tier == NOT_JUDGED else decided.word
        sizes = sizes_of(by_id[name], _values(by_id[name], entries, FINAL))
        verdicts[name] = Verdict(word, tested[name], decided, sizes)
    return verdicts


def _ran(entries: Mapping[EntryKey, Entry], key: EntryKey) -> bool:
    return key in entries and entries[key].reproduced is not None


def _values(claim: Claim, entries: Mapping[EntryKey, Entry], measure: str) -> dict[str, SeedValues]:
    values = {name: measured(entries[claim.entries[name]], measure) for name in claim.names}
    return {name: value for name, value in values.items() if value is not None}


def _beside(claim: Claim, verdict: Verdict, entries: Mapping[EntryKey, Entry]) -> dict[str, Outcome]:
    """Test a claim about test episodes on the other measures, if every entry has them."""
    if verdict.tested is None or any(leaf.inequality.of_spread for leaf in verdict.tested.leaves()):
        return {}
    if not all(entries[claim.entries[name]].episodes for name in claim.names):
        return {}
    outcomes = {}
    for name, (measure, paired) in OTHER_MEASURES.items():
        values = _values(claim, entries, measure)
        if values.keys() == claim.names and not isnan(verdict.tested.p):
            outcomes[name] = significance(claim.formula, values, paired)
    return outcomes


def half_widths(tested: Outcome) -> float:
    """Return half the width of the widest interval of the inequalities; inf if one has no interval."""
    return max((inf if isnan(leaf.error) else leaf.interval[1] - leaf.value for leaf in tested.leaves()), default=inf)


def tally(evaluated: Sequence[Evaluated]) -> dict[str, str]:
    """Return the counts that the paper's text uses."""
    of_paper = [e for e in evaluated if not e.claim.extension]
    differences = [e.printed.separated for e in of_paper if e.printed.separated is not None]
    words, carried = (Counter(e.runs.word for e in evaluated if e.claim.extension is kind) for kind in (False, True))
    counts = {"claims": len(of_paper), "printed_claims": sum(e.printed.verdict != "not printed" for e in of_paper)}
    counts |= {"inconsistent": sum(e.printed.verdict == "no" for e in of_paper)}
    counts |= {
        "differences": len(differences),
        "separated_differences": sum(differences),
        "extensions": len(evaluated) - len(of_paper),
    }
    decided = Counter(e.claim.about for e in evaluated if e.runs.word in ("supported", "contradicted"))
    counts |= {f"decided_{about}": decided[about] for about in ("learning", "mechanism")}
    for word in VERDICTS:
        counts |= {word.replace(" ", "_"): words[word], f"extension_{word.replace(' ', '_')}": carried[word]}
    return {name: str(count) for name, count in counts.items()}


def sizes_of(claim: Claim, values: Mapping[str, SeedValues]) -> tuple[Size, ...]:
    """Return every size that the claim states, with the size in the runs."""
    printed = all_entries()
    sizes = []
    for comparison, stated in zip(claim.comparisons, claim.stated):
        if stated is not None:
            said = stated({name: float(printed[claim.entries[name]].mean) for name in stated.names})
            sizes.append(Size(comparison.size.text, said, *_interval(comparison.size, values)))
    return tuple(sizes)


def _interval(quantity: Expression, values: Mapping[str, SeedValues]) -> tuple[float, float, float]:
    """Return a quantity of the runs with its interval, to first order around the means (Welch-Satterthwaite)."""
    if quantity.names != quantity.terms:
        return nan, nan, nan
    means = {name: float(values[name].values.mean()) for name in quantity.names}
    value, gradient = quantity(means), quantity.gradient(means)
    samples = independent(gradient, values)
    if not isfinite(value):
        return value, nan, nan
    interval = Contrast.between(samples, [1] * len(samples), value).interval
    return value, interval.low, interval.high
