"""The explanation of a claim in lines: its formula, entries, tests and verdict."""

from collections.abc import Iterator
from math import isfinite, isnan

from analysis.claims.entries import Entries
from analysis.claims.inference import SEEDS_FOR_SPREAD, Estimated, Outcome
from analysis.claims.measures import FINAL, measured
from analysis.claims.verdicts import Evaluated


def lines_of(e: Evaluated, entries: Entries, tier: str) -> list[str]:
    """Return the lines of an evaluated claim."""
    lines = [f"claims/{e.claim.id}", f"  {e.claim.claim}"]
    lines += [f"  at         {e.claim.at}", f"  is read as {e.claim.formula}"]
    lines += [f"  note       {e.claim.note}"] * bool(e.claim.note)
    lines.append(f"  printed    {e.printed.verdict}")
    lines += ["", "  entries", *_entries(e, entries)]
    if e.runs.word == "not comparable":
        return [*lines, "", f"  verdict    not comparable (tier {tier}): {e.claim.not_comparable[tier]}"]
    if e.runs.tested is None:
        return [*lines, "", f"  verdict    not run (tier {tier}); missing: {'; '.join(e.runs.missing)}"]
    lines += ["", "  tests", *_tests(e.runs.tested, "    ")]
    lines += ["", *_verdict(e, tier)]
    beside = [f"  {name:17} {_p(tested)}" for name, tested in e.beside.items()]
    return [*lines, *(["", "  other measures of the same runs, which do not decide", *beside] if beside else [])]


def _entries(e: Evaluated, entries: Entries) -> Iterator[str]:
    for name in sorted(e.claim.names):
        key = e.claim.entries[name]
        yield f"    {name} = {' | '.join(key)}"
        sample = measured(entries.by_key[key], FINAL) if key in entries.by_key else None
        if sample:
            pairs = zip(sample.seeds, sample.values)
            yield f"      {sample.values.mean():.4g} over seeds {', '.join(f'{s}: {v:.4g}' for s, v in pairs)}"
            yield f"      runs {' '.join(sample.runs)}"


def _tests(tested: Outcome, indent: str) -> Iterator[str]:
    if tested.estimated:
        yield f"{indent}{tested.formula}: {_estimated(tested.estimated)}"
        return
    holm = f"{len(tested.parts)} times the smallest p"
    of_it, against = ("the largest p", holm) if tested.word == "and" else (holm, "the largest p")
    yield f"{indent}{tested.word}: {of_it} for it, {against} against it: {_p(tested)}"
    for part in tested.parts:
        yield from _tests(part, indent + "  ")


def _estimated(estimate: Estimated) -> str:
    p = f"p {estimate.p[0]:.3g} for it, {estimate.p[1]:.3g} against it"
    if estimate.inequality.of_spread:
        least = SEEDS_FOR_SPREAD
        few = f"; {least} seeds a side are the least that can decide" if estimate.seeds < least else ""
        return f"deviations differ by {estimate.value:.3g}, {p} (permutation{few})"
    if isnan(estimate.error):
        why = "one training seed" if estimate.seeds < 2 else "no deviation between seeds"
        return f"{estimate.value:.4g}, no test: {why}"
    low, high = estimate.interval
    return (
        f"{estimate.value:.4g} ± {high - estimate.value:.3g} = [{low:.4g}, {high:.4g}] "
        f"(t {estimate.value / estimate.error:.3g}, {estimate.freedom:.3g} degrees of freedom), {p}"
    )


def _p(tested: Outcome) -> str:
    return f"p {tested.support:.3g} for it, {tested.against:.3g} against it, two-sided {tested.p:.3g}"


def _verdict(e: Evaluated, tier: str) -> Iterator[str]:
    assert e.runs.decided
    decided = e.runs.decided
    adjusted = f"p {decided.adjusted:.3g} by Benjamini-Hochberg over {decided.size} claims {decided.family}"
    yield f"  verdict    {e.runs.word} (tier {tier}): {adjusted}"
    yield f"             by Holm's correction {'too' if decided.holm else 'not decided'}"
    for size in e.runs.sizes:
        interval = f" [{size.low:.4g}, {size.high:.4g}]" if isfinite(size.low) else ""
        yield f"  size       {size.text}: said {size.stated:.4g}, runs {size.value:.4g}{interval}: {size.word}"
