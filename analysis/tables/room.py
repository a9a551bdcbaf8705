"""Table room: may this tier judge credit assignment on an environment?"""

from collections.abc import Hashable, Sequence
from math import hypot, nan, sqrt

import numpy as np

from analysis.data.methods import environment_name, name_of
from analysis.data.runs import EVERY_METHOD, RowKey, Run, Studies, grouped
from analysis.data.statistics import Estimate
from analysis.grid.artefact import artefact
from analysis.grid.notes import origins, protocol
from analysis.grid.table import Printed, Table

LEAST_POINTS, LEAST_ERRORS, LEAST_SEEDS = 8, 4, 3  # the rule of docs/performance.md
BASE, CONTROL = "grpo", "oracle"
COMPARED = RowKey(lambda run: run.method if run.method in (BASE, CONTROL) else None)


@artefact("room", "table", study=tuple(EVERY_METHOD), key=COMPARED)
def room(studies: Studies) -> Table:
    """Compare a control that knows how far success is with GRPO, by environment."""
    trained = (run for run in studies.runs if not run.is_evaluation)
    places = grouped(sorted(trained, key=lambda run: (run.env, run.id)), _place)
    rows, used = [], []
    for runs in places.values():
        base, control = ([run for run in runs if run.method == method] for method in (BASE, CONTROL))
        if base and control:
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
            "Room in training need not be room in final success. An environment without a row has no runs of both with "
            "one setting; docs/performance.md lists what was tried.",
            *origins(used),
        ],
        left=2,
    )


def _place(run: Run) -> Hashable:
    """Return what runs of the two must share: every setting outside of the estimator and its loss."""
    return frozenset(
        (name, str(value)) for name, value in run.settings.items() if not name.startswith(("credit.", "loss."))
    )


def _compare(base: Sequence[Run], control: Sequence[Run]) -> list[Estimate | Printed | str]:
    """Return the cells of a row: both means, the control's lead, its error, the seeds, and the verdict."""
    both = [100 * np.array([run.mean("train/success") for run in runs]) for runs in (base, control)]
    deviations = [float(rates.std(ddof=1)) if len(rates) > 1 else nan for rates in both]
    error = hypot(*(std / sqrt(len(rates)) for std, rates in zip(deviations, both)))
    lead = float(both[1].mean() - both[0].mean())
    verdict = "yes" if lead >= max(LEAST_POINTS, LEAST_ERRORS * error) else "no"
    return [
        *(Estimate(float(rates.mean()), std) for std, rates in zip(deviations, both)),
        Printed(Estimate(lead), "+.1f"),
        Estimate(error),
        " + ".join(str(len(rates)) for rates in both),
        verdict if min(map(len, both)) >= LEAST_SEEDS else "too few seeds",
    ]
