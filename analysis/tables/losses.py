"""Table blocks-losses: every policy loss beside PPO's clip, with the same credit and in the same blocks."""

from collections.abc import Sequence
from statistics import fmean

from analysis.claims.blocks import Measured, measured
from analysis.claims.declared import OVERALL, DeclaredTest
from analysis.claims.looks import MEASURES
from analysis.data.methods import name_of, ordered
from analysis.data.rows import LOSSES_IN_BLOCKS, loss_of
from analysis.data.runs import grouped
from analysis.data.studies import StudyRuns
from analysis.grid.artefact import artefact
from analysis.grid.contrasts import ByBlock, compared, differences
from analysis.grid.notes import origins, protocol
from analysis.grid.table import Table

BASE = "ppo_clip"


METHODS = ("grpo", "gated_bepo", "shrunk_bepo")
"""The methods over whose mean docs/losses.md declares two tests: the first loss of each pair learns faster."""
SEQUENCE_MASK = [("cispo sequence_mask=0.2", "cispo"), ("sapo sequence_mask=0.2", "sapo")]
LENGTH = [("dr_grpo length=2", "dr_grpo")]
UNSEEN = (104, 105)


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
    overall = found.get(OVERALL, {}) if set(METHODS) <= set(by_method) else {}
    mask = _declared("sequence-mask", study.tier, overall, SEQUENCE_MASK)
    length = _declared("length", study.tier, overall, LENGTH)
    return Table(
        "Policy losses on text Sokoban in blocks (success, %), and their differences from PPO's clip.",
        ["Loss", "Blocks", "Speed", "Difference", "Level", "Difference"],
        rows,
        [
            " ".join(protocol([study], study.runs)),
            "Speed and level as in table blocks-methods: mean over blocks ± one sample standard deviation. Difference: "
            f"from {BASE} with the same credit in the same blocks, mean with Student's 95 % interval, not corrected. "
            f"{OVERALL}: over the blocks that all of them have. No loss was tuned. Exploratory, but for two tests.",
            "Declared in docs/losses.md before a run in a block had these settings, about the mean's speed: for CISPO "
            f"and SAPO the sequence mask {mask.told}; for Dr. GRPO the length of the longest response {length.told}.",
            *origins(study.runs),
        ],
        headings=headings,
        facts={**mask.facts, **length.facts},
    )


def _declared(name: str, tier: str, overall: Measured, pairs: Sequence[tuple[str, str]]) -> DeclaredTest:
    """Return the test of the mean over pairs of the difference in speed."""
    trained = {loss for pair in pairs for loss in pair} <= set(overall)
    each = [differences(overall[more]["speed"], overall[less]["speed"]) for more, less in pairs] if trained else [{}]
    points = {block: fmean(one[block] for one in each) for block in set.intersection(*map(set, each))}
    return DeclaredTest(f"blocks-losses/{name}", tier, points, ("helps", "does not help"), unseen=UNSEEN)


def _overall(by_method: Sequence[Measured]) -> Measured:
    """Return the mean over methods of every measure, by loss, in the blocks that all methods have."""
    shared = set.intersection(*(set(by_loss) for by_loss in by_method))
    means = {loss: {name: _mean([own[loss][name] for own in by_method]) for name in MEASURES} for loss in shared}
    return {loss: own for loss, own in means.items() if all(own.values())}


def _mean(numbers: Sequence[ByBlock]) -> ByBlock:
    blocks = sorted(set.intersection(*(set(by_block) for by_block in numbers)))
    return {block: fmean(by_block[block] for by_block in numbers) for block in blocks}
