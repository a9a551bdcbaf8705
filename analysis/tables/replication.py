"""Table replication: pre-registered comparisons on text Sokoban, on new training seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from analysis.contrast import LEVEL, Contrast, Rates, holm_adjusted
from analysis.data.methods import name_of
from analysis.data.runs import Run
from analysis.data.statistics import Estimate
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.notes import origins, protocol
from analysis.grid.success import difference, final, learning, mean_of
from analysis.grid.table import NOT_RUN, Printed, Table

MAIN, STUDY = "main_sokoban_text", "replication"
OURS, RIVALS = "gated_bepo", ("grpo", "gigpo", "hgpo")
REPLICATED = {"In training": learning, "Final": final}
SEEDS = range(16, 24)
"""The pre-registered training seeds. A verdict needs all of them."""


@dataclass(frozen=True)
class _Comparison:
    """One pre-registered comparison: the rival, the measure, and the pairs of our run and the rival's."""

    measure: str
    rival: str
    pairs: list[tuple[Run, Run]]

    @cached_property
    def rates(self) -> tuple[Rates, Rates]:
        """Our success and the rival's in each pair."""
        ours, other = (REPLICATED[self.measure]([pair[side] for pair in self.pairs]) for side in (0, 1))
        return ours, other

    @property
    def difference(self) -> Contrast:
        """Our success minus the rival's, over pairs."""
        return Contrast.over(self.rates[0] - self.rates[1])

    def verdict(self, p: float) -> str:
        """Return the verdict that follows from a corrected p."""
        return "undecided" if p > LEVEL else "holds" if self.difference.value > 0 else "reversed"

    @property
    def texts(self) -> tuple[Printed | str, str]:
        """The rival's success and the difference, as the table prints them."""
        return mean_of(self.rates[1]) if self.pairs else NOT_RUN, self.difference.text(none=NOT_RUN)


@artefact("replication", "table", study=(MAIN, STUDY))
def replication(studies: Studies) -> Table:
    """Test the comparisons that experiments/replication.yaml declares, beside the differences seen before."""
    pairs = {rival: _pairs(studies[STUDY].runs, rival) for rival in RIVALS}
    declared = [_Comparison(measure, rival, pairs[rival]) for measure in REPLICATED for rival in RIVALS]
    corrected = holm_adjusted([comparison.difference.p() for comparison in declared]).tolist()
    fewest = min(len(comparison.pairs) for comparison in declared)
    unjudged = "not judged" if studies[STUDY].tier == "smoke" else "not complete" if fewest < len(SEEDS) else ""
    verdicts = [unjudged or comparison.verdict(p) for comparison, p in zip(declared, corrected)]
    rows, facts = [], {}
    for comparison, p, verdict in zip(declared, corrected, verdicts):
        before, (rival, gap) = _seen(studies[MAIN].runs, comparison), comparison.texts
        named = [comparison.measure, name_of(comparison.rival), before, rival, str(len(comparison.pairs))]
        rows.append([*named, gap, _text(comparison.difference.p()), _text(p), verdict])
        told = {"difference": gap, "before": before, "p": _text(p).text, "verdict": verdict}
        measure = REPLICATED[comparison.measure].__name__
        facts |= {f"replication/{measure}/{comparison.rival}/{name}": text for name, text in told.items()}
    facts |= {f"declared_{word}": str(verdicts.count(word)) for word in ("holds", "reversed", "undecided")}
    facts["declared_judged"] = "0" if unjudged else str(len(declared))
    used = list({run.id: run for same in pairs.values() for pair in same for run in pair}.values())
    return Table(
        "Pre-registered comparisons of Gated-BEPO on text Sokoban (points of success), on eight new training seeds.",
        ["Measure", "Compared with", "Seen before", "Rival", "Pairs", "Difference", "p", "Holm's p", "Verdict"],
        rows,
        [
            " ".join(protocol([studies[STUDY]], used)),
            "In training: success averaged over all updates. Final: success on the test tasks. Seen before: the "
            "difference on other seeds, in the main rows, with Welch's 95 % interval. Rival: its success (%) on the "
            "new seeds, ± one sample standard deviation. Difference: Gated-BEPO minus the rival, mean over pairs of "
            "runs with one seed, with Student's 95 % interval. p is two-sided. Holm's p is corrected for all six "
            f"pre-registered comparisons. Verdicts (holds, reversed, undecided) are at {100 * LEVEL:g} %. They need "
            "all pairs, which tier smoke does not have. A warm start for each seed was pre-registered too, but the "
            "runs share one.",
            *origins(used),
        ],
        used=used,
        left=2,
        facts=facts,
    )


def _of(runs: Sequence[Run], method: str) -> list[Run]:
    return [run for run in runs if run.method == method]


def _pairs(runs: Sequence[Run], rival: str) -> list[tuple[Run, Run]]:
    """Return our run and the rival's for each pre-registered seed that both have."""
    declared = [run for run in runs if run.seed in SEEDS]
    ours, other = ({run.seed: run for run in _of(declared, method)} for method in (OURS, rival))
    return [(ours[seed], other[seed]) for seed in sorted(ours.keys() & other.keys())]


def _seen(runs: Sequence[Run], comparison: _Comparison) -> str:
    """Return the difference in the main rows."""
    ours, rival = _of(runs, OURS), _of(runs, comparison.rival)
    of = REPLICATED[comparison.measure]
    return difference(of(ours), of(rival)) if ours and rival else NOT_RUN


def _text(p: float) -> Printed:
    return Printed(Estimate(p), ".2g")
