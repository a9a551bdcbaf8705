"""Table claims: what the paper claims, whether its own numbers agree, and what the runs of the tier say."""

from math import isfinite

from analysis.claims.verdicts import Consistency, Evaluated, Range, evaluate, tally
from analysis.data.reported import EntryKey
from analysis.data.runs import Studies, StudyRuns
from analysis.data.sources import Source
from analysis.grid.artefact import REGISTRY, Artefact, artefact
from analysis.grid.table import ONE_SEED, Entry, Table


class Entries(Studies):
    """The entries of all other tables at one tier by their keys, with the runs behind them."""

    by_key: dict[EntryKey, Entry]


class OfEntries(Artefact):
    """An artefact whose builder takes ``Entries``."""

    def load(self, source: Source, tier: str, allow_mixed: bool = False) -> Entries:
        """Build every other table, and return their entries."""
        tables = [item for item in REGISTRY.values() if item.kind == "table" and not isinstance(item, OfEntries)]
        every = [entry for item in tables for entry in item.entries(source, tier, allow_mixed)]
        runs = {run.id: run for entry in every for run in entry.runs}
        entries = Entries({self.label: StudyRuns(self.label, tier, [runs[i] for i in sorted(runs)])})
        entries.by_key = {entry.key: entry for entry in every if any(entry.key)}
        return entries


@artefact("claims", "table", of=OfEntries)
def claims(entries: Entries) -> Table:
    """Check every claim."""
    evaluated = evaluate(entries.by_key)
    columns = ["Claim", "At", "Printed", "Agree", "Beyond its ±", f"Reproduced ({entries.tier})", "Verdict"]
    return Table(
        "Every empirical claim of the paper, against its own printed numbers and against the runs of this tier.",
        columns,
        [_row(e) for e in evaluated],
        _notes(evaluated, entries.tier),
        left=2,
        widths={0: 0.33, 1: 0.12, 2: 0.12, 5: 0.13},
        facts=tally(evaluated),
    )


def _row(e: Evaluated) -> list[str]:
    verdict = e.runs.word + (ONE_SEED if e.runs.worst and e.runs.worst.seeds == 1 else "")
    separated = {True: "yes", False: "no", None: "–"}[e.printed.separated]
    at = e.claim.at.replace("--", "–")
    return [e.claim.claim, at, _printed(e.printed), e.printed.verdict, separated, _range(e.runs.worst), verdict]


def _printed(own: Consistency) -> str:
    if own.worst is None:
        return "–"
    half = (own.worst.high - own.worst.low) / 2
    text = f"{own.worst.value:.4g} ± {half:{'.1g' if half < 1 else '.0f'}}"
    return text if own.stated is None else f"{text}; said {own.stated:.4g}"


def _range(quantity: Range | None) -> str:
    if quantity is None:
        return "–"
    interval = f" [{quantity.low:.3g}, {quantity.high:.3g}]" if isfinite(quantity.low) else ""
    return f"{quantity.value:.3g}{interval}"


def _notes(evaluated: list[Evaluated], tier: str) -> list[str]:
    n = tally(evaluated)
    return [
        f"{n['inconsistent']} of {n['claims']} claims disagree with the paper's own numbers. Tier {tier}: "
        f"{n['supported']} supported, {n['contradicted']} contradicted, {n['undecided']} undecided, "
        f"{n['open']} not run; {n['printings']} compare two printings of a number, which no run decides.",
        "Printed: the quantity of paper/claims.yaml that is nearest to failing, with the rounding of the printed "
        "numbers (±), and the size the text gives. Agree: by rounding, if only that saves it.",
        "Beyond its ±: does Welch's 95 % interval from the printed deviations of three training seeds leave the claim "
        "standing? A dash where the paper has one training seed, or none of its numbers is concerned.",
        "Reproduced: the same quantity of this tier's runs with its 95 % interval (Welch over training seeds; "
        f"{ONE_SEED} one training seed: bootstrap over tasks, from which nothing follows about the method; no interval "
        "where all training seeds agree exactly). No correction for the number of claims.",
        *(f"{e.claim.claim} Note: {e.claim.note}" for e in evaluated if e.claim.note),
    ]
