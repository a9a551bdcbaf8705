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
    found = predictions(measured(runs)["speed"], learned_speed())
    return Table(
        "Does fidelity predict learning? Rank correlation of the lab's measures with speed on text Sokoban.",
        ["Measure", "Settings", "Blocks", "Correlation", "p", "Verdict"],
        [[*_named(one), *_numbers(one), one.verdict] for one in found],
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
        facts={f"lab/prediction/{one.measure}/{one.settings}": one.verdict for one in found if one.judged}
        | {f"lab/correlation/{one.measure}/{one.settings}": one.text for one in found if one.enough},
    )


def _named(one: Prediction) -> list[str]:
    return [_NAMES[one.measure], f"{len(one.fidelity)} ({one.settings})"]


def _numbers(one: Prediction) -> list[Printed | str]:
    if not one.enough:
        return [str(len(one.blocks)), "–", "–"]
    return [str(len(one.blocks)), one.text, Printed(Estimate(one.p), ".2g")]
