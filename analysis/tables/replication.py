"""Table replication: do leads that were seen on text Sokoban hold on new training seeds?"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from statsmodels.stats.multitest import multipletests

from analysis.claims.formula import comparisons
from analysis.claims.inference import LEVEL, Measured, significance
from analysis.data.methods import name_of
from analysis.data.runs import Run, Studies
from analysis.data.statistics import Estimate
from analysis.grid.artefact import artefact
from analysis.grid.notes import origins, protocol
from analysis.grid.success import Rates, difference, final, learning, mean_of, with_interval
from analysis.grid.table import NOT_RUN, Printed, Table

MAIN, STUDY = "main_sokoban_text", "replication"
OURS, RIVALS = "gated_bepo", ("grpo", "gigpo", "hgpo")
MEASURES = {"In training": learning, "Final": final}
SEEDS = range(16, 24)
"""The training seeds that were declared; without all of them there is no verdict."""
(_AHEAD,) = comparisons("ours > rival")


@dataclass(frozen=True)
class _Lead:
    """One declared lead: over which method, by which measure, on which pairs of our run and the rival's."""

    measure: str
    rival: str
    pairs: list[tuple[Run, Run]]

    @cached_property
    def rates(self) -> tuple[Rates, Rates]:
        """Our success and the rival's in each pair."""
        own, other = (MEASURES[self.measure]([pair[side] for pair in self.pairs]) for side in (0, 1))
        return own, other

    @property
    def points(self) -> Rates:
        """The lead of each pair."""
        return self.rates[0] - self.rates[1]

    @property
    def p(self) -> float:
        """Student's two-sided p of a mean of zero; 1 where nothing deviates, or there is no second pair."""
        seeds = tuple(own.seed for own, _ in self.pairs)
        values = {
            name: Measured((STUDY, self.measure, self.rival, name), seeds, rates, ())
            for name, rates in zip(("ours", "rival"), self.rates)
        }
        return significance(_AHEAD.formula, values, paired=True).p

    def verdict(self, p: float) -> str:
        """Return what a corrected p says of it."""
        return "undecided" if p > LEVEL else "holds" if self.points.mean() > 0 else "reversed"

    @property
    def texts(self) -> tuple[Printed | str, str]:
        """The rival's success and the lead, as the table prints them."""
        if not self.pairs:
            return NOT_RUN, NOT_RUN
        return mean_of(self.rates[1]), with_interval(float(self.points.mean()), [1], [self.points], "z.1f")


@artefact("replication", "table", study=(MAIN, STUDY))
def replication(studies: Studies) -> Table:
    """Test the leads that experiments/replication.yaml declares, and show what was seen before."""
    pairs = {rival: _pairs(studies[STUDY].runs, rival) for rival in RIVALS}
    leads = [_Lead(measure, rival, pairs[rival]) for measure in MEASURES for rival in RIVALS]
    corrected = np.asarray(multipletests([lead.p for lead in leads], LEVEL, "holm")[1]).tolist()
    fewest = min(len(lead.pairs) for lead in leads)
    unjudged = "not judged" if studies[STUDY].tier == "smoke" else "not complete" if fewest < len(SEEDS) else ""
    verdicts = [unjudged or lead.verdict(p) for lead, p in zip(leads, corrected)]
    rows, facts = [], {}
    for lead, p, verdict in zip(leads, corrected, verdicts):
        before, (rival, found) = _seen(studies[MAIN].runs, lead), lead.texts
        named = [lead.measure, name_of(lead.rival), before, rival, str(len(lead.pairs))]
        rows.append([*named, found, _text(lead.p), _text(p), verdict])
        told = {"lead": found, "before": before, "p": _text(p).text, "verdict": verdict}
        measure = MEASURES[lead.measure].__name__
        facts |= {f"replication/{measure}/{lead.rival}/{name}": text for name, text in told.items()}
    facts |= {f"declared_{word}": str(verdicts.count(word)) for word in ("holds", "reversed", "undecided")}
    facts["declared_judged"] = "0" if unjudged else str(len(leads))
    used = list({run.id: run for same in pairs.values() for pair in same for run in pair}.values())
    return Table(
        "Leads of Gated-BEPO on text Sokoban (points of success), declared before their runs, on eight new training "
        "seeds.",
        ["Measure", "Lead over", "Seen before", "Rival", "Pairs", "Lead", "p", "Holm's p", "Verdict"],
        rows,
        [
            " ".join(protocol([studies[STUDY]], used)),
            "In training: success averaged over all updates; final: on the test tasks. Seen before: the main rows, "
            "of other seeds, with Welch's 95 % interval. Rival: its success (%) on the new seeds, "
            "± one sample standard deviation. Lead: mean over pairs of runs of one seed, "
            "with Student's 95 % interval; p two-sided. Holm's p is corrected for these six, which are all that "
            f"was declared; holds, reversed: at {100 * LEVEL:g} %. Until all pairs are complete there is no "
            "verdict, and at tier smoke never. A warm start for each seed was declared too, and not done.",
            *origins(used),
        ],
        left=2,
        facts=facts,
    )


def _of(runs: Sequence[Run], method: str) -> list[Run]:
    return [run for run in runs if run.method == method]


def _pairs(runs: Sequence[Run], rival: str) -> list[tuple[Run, Run]]:
    """Return our run and the rival's of each declared seed that both have."""
    declared = [run for run in runs if run.seed in SEEDS]
    own, other = ({run.seed: run for run in _of(declared, method)} for method in (OURS, rival))
    return [(own[seed], other[seed]) for seed in sorted(own.keys() & other.keys())]


def _seen(runs: Sequence[Run], lead: _Lead) -> str:
    """Return a lead in the main rows."""
    own, rival = _of(runs, OURS), _of(runs, lead.rival)
    of = MEASURES[lead.measure]
    return difference(of(own), of(rival)) if own and rival else NOT_RUN


def _text(p: float) -> Printed:
    return Printed(Estimate(p), ".2g")
