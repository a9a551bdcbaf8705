"""Table blocks-losses: every policy loss beside PPO's clip, with the same credit and in the same blocks."""

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

from analysis.claims.blocks import Measured, measured
from analysis.claims.declared import FIRST_SIX, Verdict
from analysis.claims.looks import MEASURES
from analysis.data.methods import name_of, ordered
from analysis.data.rows import LOSSES_IN_BLOCKS, loss_of
from analysis.data.runs import grouped
from analysis.data.studies import StudyRuns
from analysis.grid.artefact import artefact
from analysis.grid.contrasts import ByBlock, compared, differences
from analysis.grid.notes import origins, protocol
from analysis.grid.success import Rates
from analysis.grid.table import Table

BASE = "ppo_clip"
OVERALL = "Mean over methods"


class Declared(NamedTuple):
    """A test that docs/losses.md declares: the first loss of each pair learns faster than the second."""

    setting: str
    losses: str
    pairs: Sequence[tuple[str, str]]


DECLARED = {
    "sequence-mask": Declared(
        "the sequence mask",
        "CISPO and SAPO",
        [("cispo sequence_mask=0.2", "cispo"), ("sapo sequence_mask=0.2", "sapo")],
    ),
    "length": Declared("the length of the longest response", "Dr. GRPO", [("dr_grpo length=2", "dr_grpo")]),
}


@artefact("blocks-losses", "table", study="loss_axes", key=LOSSES_IN_BLOCKS)
def blocks_losses(study: StudyRuns) -> Table:
    """Compare every loss with PPO's clip, by method."""
    by_method, rows, headings = grouped(study.runs, lambda run: run.method), [], []
    found = {name_of(name): measured(by_method[name], loss_of) for name in ordered(by_method)}
    if len(found) > 1:
        found[OVERALL] = _overall(list(found.values()))
    for heading, by_loss in found.items():
        for loss in sorted(by_loss, key=lambda name: (name != BASE, name)):
            base = by_loss.get(BASE, {}) if loss != BASE else {}
            numbers = [text for measure in MEASURES for text in compared(by_loss[loss][measure], base.get(measure, {}))]
            rows.append([loss, str(len(by_loss[loss]["speed"])), *numbers])
            headings.append(heading)
    sentences, facts = _declared(found[OVERALL]) if OVERALL in found and study.tier != "smoke" else ([], {})
    return Table(
        "Policy losses on text Sokoban in blocks (success, %), and their differences from PPO's clip.",
        ["Loss", "Blocks", "Speed", "Difference", "Level", "Difference"],
        rows,
        [
            " ".join(protocol([study], study.runs)),
            "Speed and level as in table blocks-methods: mean over blocks ± one sample standard deviation. Difference: "
            f"from {BASE} with the same credit in the same blocks, mean with Student's 95 % interval, not corrected. "
            f"{OVERALL}: over the blocks that all of them have. No loss was tuned. Exploratory.",
            *sentences,
            *origins(study.runs),
        ],
        headings=headings,
        facts=facts,
    )


def _declared(overall: Measured) -> tuple[list[str], dict[str, str]]:
    """Return sentences about the declared tests, and the facts for the paper's text."""
    sentences, facts = [], {}
    for name, (setting, losses, pairs) in DECLARED.items():
        verdict = Verdict(_points(overall, pairs))
        if verdict.is_positive is None:
            continue
        word = "helps" if verdict.is_positive else "does not help"
        sentences.append(f"{setting} {word} {losses}, by {verdict.mean} points of speed (one-sided p {verdict.p})")
        facts |= {f"blocks-losses/{name}/difference": verdict.mean, f"blocks-losses/{name}/verdict": word}
    text = f"Declared in docs/losses.md before a run had these settings: {'; '.join(sentences)}."
    return [text] if sentences else [], facts


def _points(overall: Measured, pairs: Sequence[tuple[str, str]]) -> Rates:
    """Return the difference in speed of the pairs' losses, averaged over pairs, in each declared block."""
    if not {loss for pair in pairs for loss in pair} <= set(overall):
        return np.empty(0)
    each = [differences(overall[more]["speed"], overall[less]["speed"]) for more, less in pairs]
    blocks = set(FIRST_SIX).intersection(*each)
    return np.array([fmean(one[block] for one in each) for block in sorted(blocks)])


def _overall(by_method: Sequence[Measured]) -> Measured:
    """Return the mean over methods of every measure, by loss, in the blocks that all methods have."""
    shared = set.intersection(*(set(by_loss) for by_loss in by_method))
    means = {loss: {name: _mean([own[loss][name] for own in by_method]) for name in MEASURES} for loss in shared}
    return {loss: own for loss, own in means.items() if all(own.values())}


def _mean(numbers: Sequence[ByBlock]) -> ByBlock:
    blocks = sorted(set.intersection(*(set(by_block) for by_block in numbers)))
    return {block: fmean(by_block[block] for by_block in numbers) for block in blocks}
