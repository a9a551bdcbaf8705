"""Tables claims, decided-claims, claim-measures and checks: the paper's claims, their verdicts, and its consistency."""

from collections.abc import Mapping
from math import isfinite, isnan
from statistics import median

from analysis.claims.entries import Entries, OfEntries
from analysis.claims.formula import Joined
from analysis.claims.inference import Outcome
from analysis.claims.measures import FINAL, OTHER_MEASURES
from analysis.claims.needs import MOST_SEEDS, seeds_needed
from analysis.claims.printed import Consistency
from analysis.claims.verdicts import NOT_JUDGED, Evaluated, checks, deciding, half_widths, tally
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.table import ONE_SEED, Table

_OF_PAPER, _CARRIED_OVER = (
    "Claims of the paper",
    "Carried over to text Sokoban, which the paper does not train (extension)",
)
_HOLM = "ᴴ"
_FEW_SEEDS = 16


@artefact("claims", "table", of=OfEntries)
def claims(entries: Entries) -> Table:
    """Check every claim against the printed numbers and the runs."""
    evaluated = sorted(entries.evaluated, key=lambda e: e.claim.extension)
    columns = [
        "Claim",
        "At",
        "Printed",
        "Agree",
        "Beyond its ±",
        f"Reproduced ({entries.tier})",
        "p",
        "Seeds",
        "Verdict",
        "Size",
    ]
    return Table(
        "Every empirical claim of the paper, checked against its printed numbers and against the runs of this tier.",
        columns,
        [_row(e) for e in evaluated],
        _notes(evaluated, entries.tier),
        headings=[_CARRIED_OVER if e.claim.extension else _OF_PAPER for e in evaluated],
        left=2,
        widths={0: 0.22, 1: 0.09, 2: 0.09, 5: 0.13},
        facts=tally(evaluated),
    )


def _row(e: Evaluated) -> list[str]:
    separated = {True: "yes", False: "no", None: "–"}[e.printed.separated]
    sizes = ", ".join(dict.fromkeys(size.word for size in e.runs.sizes if e.runs.word != "not judged")) or "–"
    return [
        e.claim.claim, e.claim.at.replace("--", "–"), _printed(e), e.printed.verdict, separated,
        _reproduced(e), _p(e), _seeds(e), _word(e), sizes,
    ]  # fmt: skip


def _p(e: Evaluated) -> str:
    return "–" if e.runs.tested is None or e.runs.word == "not judged" else f"{e.runs.tested.p:.2g}"


def _word(e: Evaluated) -> str:
    deciding = e.runs.deciding
    one_seed = ONE_SEED if deciding and deciding.seeds == 1 else ""
    holm = _HOLM if e.runs.decided and e.runs.decided.holm and e.runs.word != "not judged" else ""
    return e.runs.word + one_seed + holm


def _printed(e: Evaluated) -> str:
    printed = e.printed
    if printed.worst is None:
        return "–"
    width = printed.worst.high - printed.worst.low
    text = f"{printed.worst.value:.4g}" + (f" (rounded to {width:{'.1g' if width < 1 else '.0f'}})" if width else "")
    text += f": {printed.worst.text}" if isinstance(e.claim.formula, Joined) else ""
    return text if printed.stated is None else f"{text}; said {printed.stated:.4g}"


def _reproduced(e: Evaluated) -> str:
    return e.said or "–"


def _notes(evaluated: list[Evaluated], tier: str) -> list[str]:
    n = tally(evaluated)
    judged = "No verdicts at tier smoke: its runs only show that everything runs." if tier == NOT_JUDGED else (
        f"Tier {tier}: {n['supported']} supported, {n['contradicted']} contradicted, {n['undecided']} undecided, "
        f"{n['not_comparable']} not comparable, {n['not_run']} not run. Carried over to text Sokoban "
        f"({n['extensions']}): {n['extension_supported']} supported, {n['extension_contradicted']} contradicted, "
        f"{n['extension_undecided']} undecided, {n['extension_not_run']} not run."
    )  # fmt: skip
    return [
        f"{n['inconsistent']} of the {n['printed_claims']} claims with printed numbers ({n['claims']} in all) disagree "
        f"with them. {judged}",
        "Printed: the comparison that is nearest to failing, with the rounding of the printed numbers in brackets and "
        "the size that the text states. It is named if a claim has several, and can differ from the one that decides "
        "for the runs. Agree: yes, no, or by rounding (not as printed, but rounding could hide it).",
        "Beyond its ±: whether the claim holds throughout Welch's 95 % interval from the printed deviations of three "
        "training seeds. A dash: the paper has one training seed, or the claim has no printed numbers.",
        "Reproduced: what decides, with its 95 % interval over training seeds (Welch; paired if both sides use the "
        "same runs). p: two-sided, of the whole claim (and: intersection-union; or: Holm; deviations: permutation). "
        "Seeds: training seeds of the entry with the fewest. Verdict: by Benjamini-Hochberg at 5 % over the claims of "
        "a family that have runs (of the paper or carried over, about learning or mechanism). Intervals are not "
        "corrected, so one may exclude 0 beside undecided. "
        f"{_HOLM} also by Holm's correction; {ONE_SEED} one training seed: no conclusion. "
        "python -m analysis explain claims/NAME shows the arithmetic.",
        "Size: whether the stated size lies in the 95 % interval of the runs (within), or the size in the runs is "
        "smaller or larger.",
        *(f"{e.claim.claim} Note: {e.claim.note}" for e in evaluated if e.claim.note),
        *(f"{e.claim.claim} Not comparable: {e.claim.not_comparable[tier]}" for e in evaluated if _refused(e)),
    ]


def _refused(e: Evaluated) -> bool:
    return e.runs.word == "not comparable"


@artefact("decided-claims", "table", of=OfEntries)
def decided_claims(entries: Entries) -> Table:
    """List the claims that the runs decide, with their seeds, and how many seeds the others need."""
    decided = [e for e in entries.evaluated if e.runs.word in ("supported", "contradicted")]
    decided.sort(key=lambda e: (e.claim.extension, e.runs.word != "supported"))
    columns = ["Claim", f"Reproduced ({entries.tier})", "p", "Seeds", "Verdict"]
    return Table(
        f"The claims that the runs of tier {entries.tier} decide.",
        columns,
        [[e.claim.claim, _reproduced(e), _p(e), _seeds(e), _word(e)] for e in decided],
        [
            _about(tally(entries.evaluated)),
            _undecided(entries.evaluated),
            "Columns: see the table of all claims (supplement).",
        ],
        headings=[_CARRIED_OVER if e.claim.extension else _OF_PAPER for e in decided],
        widths={0: 0.4, 1: 0.25},
        short=True,
    )


def _about(counts: Mapping[str, str]) -> str:
    learning, rest = counts["decided_learning"], counts["decided_mechanism"]
    return f"Decided about what agents learn: {learning}; about cost, coverage, convergence and diagnostics: {rest}."


def _undecided(evaluated: list[Evaluated]) -> str:
    """Return a sentence on how many training seeds the undecided claims would need."""
    needs = [seeds_needed(e.runs.tested) for e in evaluated if e.runs.word == "undecided" and e.runs.tested]
    few, finite = sum(n <= _FEW_SEEDS for n in needs), sum(map(isfinite, needs))
    return (
        f"Undecided: {len(needs)}. If differences and deviations stay as they are now, {few} of them need at most "
        f"{_FEW_SEEDS} training seeds per entry in a single, uncorrected test (80 % power), and {finite - few} need "
        f"more (at most {MOST_SEEDS}). For the other {len(needs) - finite} the number is higher or unknown."
    )


def _seeds(e: Evaluated) -> str:
    return str(e.runs.deciding.seeds) if e.runs.deciding else "–"


@artefact("claim-measures", "table", of=OfEntries)
def claim_measures(entries: Entries) -> Table:
    """Show the tests of each claim on other measures of the same runs beside the deciding one."""
    shown = [e for e in entries.evaluated if e.beside and e.runs.tested]
    names = [FINAL, *OTHER_MEASURES]
    rows = [[e.claim.claim, *(_tested(_on(e).get(name)) for name in names)] for e in shown]
    return Table(
        f"Claims about test episodes on measures with less noise (tier {entries.tier}), declared before most runs. "
        "Only the final number decides.",
        ["Claim", *(name.capitalize() for name in names)],
        rows,
        [
            "Each cell: the deciding difference on this measure, its 95 % interval, and the two-sided p of the whole "
            "claim, without correction for the number of claims.",
            "Over training: area under the test curve over updates, divided by its length. Last evaluations: the mean "
            "of the last three. Paired: final success, compared between runs with the same training seed.",
            *_narrower(shown),
        ],
        widths={0: 0.4},
    )  # fmt: skip


def _on(e: Evaluated) -> dict[str, Outcome]:
    return {**({FINAL: e.runs.tested} if e.runs.tested else {}), **e.beside}


def _tested(tested: Outcome | None) -> str:
    if tested is None or isnan(deciding(tested).error):
        return "–"
    decisive = deciding(tested)
    low, high = decisive.interval
    return f"{decisive.value:+.1f} [{low:.1f}, {high:.1f}], p {tested.p:.2g}"


def _narrower(shown: list[Evaluated]) -> list[str]:
    """Return a note on how much narrower the intervals of each measure are."""
    notes = []
    for name in OTHER_MEASURES:
        pairs = [
            (half_widths(e.beside[name]), half_widths(e.runs.tested))
            for e in shown
            if name in e.beside and e.runs.tested
        ]
        ratios = [other / final for other, final in pairs if isfinite(other) and isfinite(final) and final]
        if ratios:
            notes.append(f"{name}: {median(ratios):.2f}")
    return (
        [f"Width of the interval relative to that of final success, median over claims: {'; '.join(notes)}."]
        if notes
        else []
    )


@artefact("checks", "table")
def own_checks(_: Studies) -> Table:
    """Check the consistency of the paper. These checks are ours, not the paper's claims, and need no runs."""
    checked = checks()
    rows = [
        [check.claim, check.at.replace("--", "–"), _gap(result), result.verdict, check.reason]
        for check, result in checked
    ]
    differ = sum(result.verdict == "no" for _, result in checked)
    return Table(
        "Consistency of the paper: our checks, not claims of the paper.",
        ["Check", "At", "Gap", "Agree", "Why both should be equal"],
        rows,
        [f"{differ} of {len(checked)} disagree. Gap: the largest relative to its rounding, the only tolerance."],
        left=2,
        widths={0: 0.35, 1: 0.15, 4: 0.3},
        facts={"checks": str(len(checked)), "disagreements": str(differ)},
    )


def _gap(result: Consistency) -> str:
    return f"{result.worst.value:+.4g}" if result.worst else "–"
