"""Table headroom: whether a tier can judge credit assignment on an environment."""

from collections.abc import Hashable, Sequence
from math import hypot, nan, sqrt

from analysis.data.methods import environment_name, name_of
from analysis.data.rows import EVERY_METHOD, RowKey
from analysis.data.runs import Run, grouped
from analysis.data.statistics import Estimate
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.notes import origins, protocol
from analysis.grid.success import learning, mean_of
from analysis.grid.table import Printed, Table

LEAST_POINTS, LEAST_ERRORS, LEAST_SEEDS = 8, 4, 3  # the rule of docs/laptop.md
NO_CREDIT, ORACLE = "grpo", "oracle"
COMPARED = RowKey(lambda run: run.method if run.method in (NO_CREDIT, ORACLE) else None)


@artefact("headroom", "table", study=(*EVERY_METHOD, "qwen3_transfer"), key=COMPARED)
def headroom(studies: Studies) -> Table:
    """Compare the oracle with GRPO, by environment and model."""
    trained = (run for run in studies.runs if not run.is_evaluation)
    settings = grouped(sorted(trained, key=lambda run: (run.env, run.id)), _compared_settings)
    rows, used = [], []
    for runs in settings.values():
        base, oracle = ([run for run in runs if run.method == method] for method in (NO_CREDIT, ORACLE))
        if base:
            rows.append([environment_name(runs[0].env), runs[0].model, *_compare(base, oracle)])
            used += runs
    return Table(
        "Headroom for credit assignment: training success (%), averaged over all updates, of GRPO and of the oracle. "
        "The oracle is privileged, not a bound: its credit uses the expert's distance to success.",
        [
            "Environment",
            "Model",
            name_of(NO_CREDIT),
            name_of(ORACLE),
            "Difference",
            "Standard error",
            "Seeds",
            "Headroom",
        ],
        rows,
        [
            " ".join(protocol(studies.values(), used)),
            f"Headroom (yes): the oracle exceeds GRPO by at least {LEAST_POINTS} points and by at least {LEAST_ERRORS} "
            f"standard errors of the difference, with at least {LEAST_SEEDS} training seeds each. Without headroom "
            "this tier cannot judge credit assignment on the environment, and its rows do not compare methods. "
            "Headroom in training does not imply headroom in final success. Not tested: no run of the oracle has the "
            "settings and the warm start of these runs. docs/laptop.md lists what was tried.",
            *oracles(used),
            *origins(used),
        ],
        used=used,
        left=2,
    )


def _compared_settings(run: Run) -> Hashable:
    """Return the parts that both methods must share: the start, and all settings but the estimator's and its loss's."""
    shared = {name: str(value) for name, value in run.settings.items() if not name.startswith(("credit.", "loss."))}
    return run.success_before, frozenset(shared.items())


def _compare(base: Sequence[Run], oracle: Sequence[Run]) -> list[Estimate | Printed | str]:
    """Return the cells of a row: both means, their difference, its standard error, the seeds, and the verdict."""
    means, seeds = [mean_of(learning(runs)) for runs in (base, oracle) if runs], f"{len(base)} + {len(oracle)}"
    if not oracle:
        return [*means, "not run", "–", "–", seeds, "not tested"]
    enough = min(len(base), len(oracle)) >= LEAST_SEEDS
    verdict = "yes" if has_headroom(base, oracle) else "no" if enough else "too few seeds"
    difference, error = _difference(base, oracle)
    return [*means, Printed(Estimate(difference), "+.1f"), Estimate(error), seeds, verdict]


def oracles(runs: Sequence[Run]) -> list[str]:
    """Return a note that says which oracle each environment has; none without an oracle."""
    variants = sorted({(environment_name(run.env), str(run["variant"])) for run in runs if run.method == ORACLE})
    by_env = grouped(variants, lambda pair: pair[0])
    told = "; ".join(f"{env}: {' and '.join(variant for _, variant in same)}" for env, same in by_env.items())
    return [f"Credit of the oracle (docs/credit.md): {told}."] if told else []


def has_headroom(base: Sequence[Run], oracle: Sequence[Run]) -> bool:
    """Return whether the oracle's runs exceed GRPO's by as much as the rule asks."""
    difference, error = _difference(base, oracle)
    return min(len(base), len(oracle)) >= LEAST_SEEDS and difference >= max(LEAST_POINTS, LEAST_ERRORS * error)


def _difference(base: Sequence[Run], oracle: Sequence[Run]) -> tuple[float, float]:
    """Return by how many points the oracle exceeds GRPO, and the standard error; nan with a single seed."""
    rates = learning(base), learning(oracle)
    error = hypot(*(sample.std(ddof=1) / sqrt(len(sample)) for sample in rates)) if min(map(len, rates)) > 1 else nan
    return float(rates[1].mean() - rates[0].mean()), error
