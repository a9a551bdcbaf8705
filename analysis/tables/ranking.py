"""Table ranking: the methods of each environment, the fastest learner first. The first table of the page."""

from collections.abc import Sequence

from analysis.contrast import Contrast
from analysis.data.methods import environment_name, marked_name
from analysis.data.rows import EVERY_METHOD
from analysis.data.runs import Run
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.notes import origins, protocol
from analysis.grid.ranking import MODEL, ranked
from analysis.grid.success import final, learning, mean_of
from analysis.grid.table import Printed, Table


@artefact("ranking", "table", study=EVERY_METHOD)
def ranking(studies: Studies) -> Table:
    """Rank methods by their success in training."""
    by_env = ranked(studies)
    rows, headings, used = [], [], []
    for env, by_method in by_env.items():
        for method, runs in by_method.items():
            rows.append(_row(method, runs))
            headings.append(environment_name(env))
            used += runs
    return Table(
        f"Methods by environment, the fastest learner first (success in per cent, model {MODEL}).",
        ["Method", "In training", "95 % interval", "Final", "Seeds"],
        rows,
        [
            " ".join(protocol(studies.values(), used)),
            "In training: averaged over all updates, with Student's interval over training seeds; runs of an "
            "environment share one warm start. Final: the last policy on the test tasks, ± one sample standard "
            "deviation. The order is not a test. The oracle uses the expert's distance to success. It is a reference, "
            "not a bound: methods can be above it.",
            *origins(used),
        ],
        used=used,
        headings=headings,
    )


def _row(method: str, runs: Sequence[Run]) -> list[Printed | str]:
    rates = learning(runs)
    told = Contrast.over(rates).text(".1f")
    mean, _, interval = told.partition(" ")
    return [marked_name(method), mean, interval or "–", mean_of(final(runs)), str(len(runs))]
