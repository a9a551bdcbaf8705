"""Table room: may this tier judge credit assignment on an environment?"""

from collections.abc import Hashable, Sequence
from math import hypot, nan, sqrt

from analysis.data.methods import environment_name, name_of
from analysis.data.runs import EVERY_METHOD, RowKey, Run, Studies, grouped
from analysis.data.statistics import Estimate
from analysis.grid.artefact import artefact
from analysis.grid.notes import origins, protocol
from analysis.grid.success import learning, mean_of
from analysis.grid.table import Printed, Table

LEAST_POINTS, LEAST_ERRORS, LEAST_SEEDS = 8, 4, 3  # the rule of docs/laptop.md
BASE, CONTROL = "grpo", "oracle"
COMPARED = RowKey(lambda run: run.method if run.method in (BASE, CONTROL) else None)


@artefact("room", "table", study=(*EVERY_METHOD, "qwen3_transfer"), key=COMPARED)
def room(studies: Studies) -> Table:
    """Compare a control that knows how far success is with GRPO, by environment."""
    trained = (run for run in studies.runs if not run.is_evaluation)
    places = grouped(sorted(trained, key=lambda run: (run.env, run.id)), _place)
    rows, used = [], []
    for runs in places.values():
        base, control = ([run for run in runs if run.method == method] for method in (BASE, CONTROL))
        if base:
            rows.append([environment_name(runs[0].env), runs[0].model, *_compare(base, control)])
            used += runs
    return Table(
        "Room for credit assignment: success in training (%), averaged over all updates, of GRPO and of a control that "
        "knows how far success is.",
        ["Environment", "Model", name_of(BASE), name_of(CONTROL), "Lead", "Standard error", "Seeds", "Room"],
        rows,
        [
            " ".join(protocol(studies.values(), used)),
            f"Room, by the pilot's rule: the control leads by at least {LEAST_POINTS} points and "
            f"{LEAST_ERRORS} standard errors of the difference, with {LEAST_SEEDS} training seeds of both or more. "
            "Where there is none, this tier cannot judge credit on the environment: its rows say nothing of methods. "
            "Room in training need not be room in final success. Not tested: no run of the control has settings and "
            "start of these, and nobody knows; docs/laptop.md lists what was tried.",
            *origins(used),
        ],
        left=2,
    )


def _place(run: Run) -> Hashable:
    """Return what runs of the two must share: their start, and every setting outside of the estimator and its loss."""
    shared = {name: str(value) for name, value in run.settings.items() if not name.startswith(("credit.", "loss."))}
    return run.success_before, frozenset(shared.items())


def _compare(base: Sequence[Run], control: Sequence[Run]) -> list[Estimate | Printed | str]:
    """Return the cells of a row: both means, the control's lead, its error, the seeds, and the verdict."""
    means, seeds = [mean_of(learning(runs)) for runs in (base, control) if runs], f"{len(base)} + {len(control)}"
    if not control:
        return [*means, "not run", "–", "–", seeds, "not tested"]
    enough = min(len(base), len(control)) >= LEAST_SEEDS
    verdict = "yes" if has_free_slot(base, control) else "no" if enough else "too few seeds"
    lead, error = _lead(base, control)
    return [*means, Printed(Estimate(lead), "+.1f"), Estimate(error), seeds, verdict]


def has_free_slot(base: Sequence[Run], control: Sequence[Run]) -> bool:
    """Return whether the control's runs lead GRPO's by as much as the rule asks."""
    lead, error = _lead(base, control)
    return min(len(base), len(control)) >= LEAST_SEEDS and lead >= max(LEAST_POINTS, LEAST_ERRORS * error)


def _lead(base: Sequence[Run], control: Sequence[Run]) -> tuple[float, float]:
    """Return the control's lead in points and its standard error, nan of a single seed."""
    rates = learning(base), learning(control)
    error = hypot(*(own.std(ddof=1) / sqrt(len(own)) for own in rates)) if min(map(len, rates)) > 1 else nan
    return float(rates[1].mean() - rates[0].mean()), error
