"""Table lab-prediction: does fidelity in the lab predict how fast language models learn in blocks?"""

from analysis.claims.blocks import IN_BLOCKS, measured, runs_in_blocks
from analysis.claims.prediction import ALL_BLOCKS, FEWEST, LEVEL, Prediction, predictions
from analysis.data.lab import learned_speed
from analysis.data.rows import ROW_IN_BLOCKS
from analysis.data.statistics import Estimate
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.notes import origins
from analysis.grid.table import Printed, Table

_NAMES = {"error": "error", "gradient_efficiency": "gradient efficiency", "training": "training in the lab"}


@artefact("lab-prediction", "table", study=IN_BLOCKS, key=ROW_IN_BLOCKS)
def lab_prediction(studies: Studies) -> Table:
    """Compute the correlations that docs/lab.md declares."""
    runs = [run for run in runs_in_blocks(studies) if run.env == "sokoban"]
    rows = predictions(measured(runs)["speed"], learned_speed())
    return Table(
        "Does fidelity predict learning? Rank correlation of the lab's measures with speed on text Sokoban.",
        ["Measure", "Settings", "Blocks", "Correlation", "p", "Verdict"],
        [[*_named(row), *_numbers(row), row.verdict] for row in rows],
        [
            "Declared in docs/lab.md before a block was compared with the lab. Settings: the nine methods without a "
            "critic and without privileged information (primary), these with nine variants of Gated-BEPO (all), and "
            "ten estimators of study frontier (newer; declared before these were compared). Speed: success in "
            f"training over all updates, averaged over the blocks {ALL_BLOCKS[0]} to {ALL_BLOCKS[-1]} that "
            "all settings have. Correlation: Spearman's, positive if the sign is as predicted, with its 95 % intervals "
            "by resampling blocks, for these settings, and by resampling settings. p is one-sided, by permuting "
            "settings. A measure predicts learning over the primary or newer settings if its p is below "
            f"{LEVEL:g}. With fewer than {FEWEST} blocks nothing is computed.",
            *origins(runs),
        ],
        used=runs,
        left=2,
        facts={f"lab/prediction/{row.measure}/{row.settings}": row.verdict for row in rows if row.judged}
        | {f"lab/correlation/{row.measure}/{row.settings}": row.text for row in rows if row.enough},
    )


def _named(row: Prediction) -> list[str]:
    return [_NAMES[row.measure], f"{len(row.fidelity)} ({row.settings})"]


def _numbers(row: Prediction) -> list[Printed | str]:
    if not row.enough:
        return [str(len(row.blocks)), "–", "–"]
    return [str(len(row.blocks)), row.text, Printed(Estimate(row.p), ".2g")]
