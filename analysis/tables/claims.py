"""Table claims: what the paper claims, whether its own numbers agree, and what the runs of the tier say."""

from __future__ import annotations

from math import isfinite

from analysis.artefact import Table
from analysis.cells import Cells, of_cells
from analysis.verdicts import Consistency, Evaluated, Range, evaluate, tally

ONE_SEED = "‡"


@of_cells("claims", "table")
def claims(cells: Cells) -> Table:
    evaluated = evaluate(cells)
    return Table(
        "Every empirical claim of the paper, against its own printed numbers and against the runs of this tier.",
        ["Claim", "At", "Printed", "Agree", "Beyond its ±", f"Reproduced ({cells.scale})", "Verdict"],
        [_row(e) for e in evaluated],
        notes=_notes(evaluated, cells.scale),
        left=2,
        widths={0: 0.33, 1: 0.12, 2: 0.12, 5: 0.13},
        facts=tally(evaluated),
    )


def _row(e: Evaluated) -> list[str]:
    verdict = e.runs.word + (ONE_SEED if e.runs.one_seed else "")
    separated = {True: "yes", False: "no", None: "–"}[e.printed.separated]
    return [
        e.claim.claim,
        e.claim.at.replace("--", "–"),
        _printed(e.printed),
        e.printed.verdict,
        separated,
        _range(e.runs.worst),
        verdict,
    ]


def _printed(own: Consistency) -> str:
    if own.worst is None:
        return "–"
    half = (own.worst.high - own.worst.low) / 2
    text = f"{own.worst.value:.4g} ± {half:{'.1g' if half < 1 else '.0f'}}"
    return text if own.stated is None else f"{text}; said {own.stated:.4g}"


def _range(found: Range | None) -> str:
    if found is None:
        return "–"
    inside = f" [{found.low:.3g}, {found.high:.3g}]" if isfinite(found.low) else ""
    return f"{found.value:.3g}{inside}"


def _notes(evaluated: list[Evaluated], scale: str) -> list[str]:
    n = tally(evaluated)
    own = [f"{e.claim.claim} Note: {e.claim.note}" for e in evaluated if e.claim.note]
    return [
        f"{n['inconsistent']} of {n['claims']} claims disagree with the paper's own numbers. Tier {scale}: "
        f"{n['supported']} supported, {n['contradicted']} contradicted, {n['undecided']} undecided, "
        f"{n['open']} not run; {n['printings']} compare two printings of a number, which no run decides.",
        "Printed: the quantity of paper/claims.yaml that is nearest to failing, with the rounding of the printed "
        "numbers (±), and the size the text gives. Agree: by rounding, if only that saves it.",
        "Beyond its ±: does Welch's 95 % interval from the printed deviations of three training seeds leave the claim "
        "standing? A dash where the paper has one training seed, or none of its numbers is concerned.",
        "Reproduced: the same quantity of this tier's runs with its 95 % interval (Welch over training seeds; "
        f"{ONE_SEED} one training seed: bootstrap over tasks, from which nothing follows about the method; no interval "
        "where all training seeds agree exactly). "
        "No correction for the number of claims.",
        *own,
    ]
