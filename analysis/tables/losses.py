"""Table blocks-losses: every policy loss beside PPO's clip, with the same credit and in the same blocks."""

from analysis.claims.blocks import measured
from analysis.claims.looks import MEASURES
from analysis.data.methods import name_of, ordered
from analysis.data.rows import LOSSES_IN_BLOCKS
from analysis.data.runs import grouped
from analysis.data.studies import StudyRuns
from analysis.grid.artefact import artefact
from analysis.grid.contrasts import compared
from analysis.grid.notes import origins, protocol
from analysis.grid.table import Table

BASE = "ppo_clip"


@artefact("blocks-losses", "table", study="loss_axes", key=LOSSES_IN_BLOCKS)
def blocks_losses(study: StudyRuns) -> Table:
    """Compare every loss with PPO's clip, by method."""
    by_method, rows, headings = grouped(study.runs, lambda run: run.method), [], []
    for method in ordered(by_method):
        by_loss = measured(by_method[method], lambda run: str(run["loss.name"]))
        for loss in sorted(by_loss, key=lambda name: (name != BASE, name)):
            base = by_loss.get(BASE, {}) if loss != BASE else {}
            numbers = [text for measure in MEASURES for text in compared(by_loss[loss][measure], base.get(measure, {}))]
            rows.append([loss, str(len(by_loss[loss]["speed"])), *numbers])
            headings.append(name_of(method))
    return Table(
        "Policy losses on text Sokoban in blocks (success, %), and their differences from PPO's clip.",
        ["Loss", "Blocks", "Speed", "Difference", "Level", "Difference"],
        rows,
        [
            " ".join(protocol([study], study.runs)),
            "Speed and level as in table blocks-methods: mean over blocks ± one sample standard deviation. Difference: "
            f"from {BASE} with the same credit in the same blocks, mean with Student's 95 % interval, not corrected. "
            "Exploratory.",
            *origins(study.runs),
        ],
        headings=headings,
    )
