"""Table granularity: the numbers of evaluation episodes with which the printed success rates are possible."""

from collections.abc import Sequence
from decimal import Decimal
from functools import cache

from analysis.data.reported import entries_of, last_unit
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.table import Table

_STATED = 128  # tasks of an evaluation pass (Table supp-environment-hparams)
_PASSES = 3
_CANDIDATES = range(32, 513, 32)


_WEBSHOP = ("fusion", "gate", "gate-gae", "diagnostic", "maxiter", "supp-mixing")
# Printed rates with one stated number of episodes: tables, column, number of training seeds.
_GROUPS = {
    "WebShop ablations": ([f"{name}-ablation" for name in _WEBSHOP], "success", 1),
    "ALFWorld ablation": (["backup-ablation"], "success", 1),
    "WebShop, Qwen3": (["qwen3-results"], "webshop/success", 3),
    "ALFWorld, Qwen3": (["qwen3-results"], "alfworld/All", 3),
}


def possible(rate: str, episodes: int) -> bool:
    """Return whether some number of successes prints as ``rate`` (in per cent), rounded or truncated."""
    printed, unit = Decimal(rate), last_unit(rate)
    near = int(printed * episodes / 100)
    shares = [Decimal(100 * k) / episodes for k in (near - 1, near, near + 1)]
    return any(-unit / 2 <= share - printed < unit for share in shares)


@artefact("granularity", "table")
def granularity(_: Studies) -> Table:
    """Count the possible rates by the number of episodes."""
    rows = [_row(name, *group) for name, group in _GROUPS.items()]
    printed, fit, fewest = (rows[0][j] for j in (1, 3, 5))
    return Table(
        "Printed success rates and the number of evaluation episodes: a rate is a whole number of successes over them.",
        "Rates|Printed|Episodes stated|Possible|By chance|Fewest tasks per pass that fit|By chance".split("|"),
        rows,
        [
            f"Stated: {_STATED} tasks per pass, {_PASSES} evaluation passes, one training seed (ablations) or three.",
            "Possible: how many of the distinct two-decimal rates are a whole number of successes, rounded or "
            "truncated. By chance: the share of all two-decimal rates that are. Fewest: the smallest multiple of 32 "
            "tasks with which all rates are possible (episodes in brackets). Lost episodes would change this.",
        ],
        facts={"webshop_rates": printed, "webshop_rates_fit": fit, "webshop_tasks": fewest.split(" ")[0]},
    )


def _row(name: str, labels: Sequence[str], column: str, training_seeds: int) -> list[str]:
    printed = [entry.mean for label in labels for entry in entries_of(label) if entry.column == column]
    rates, passes = {text for text in printed if len(text.partition(".")[2]) >= 2}, _PASSES * training_seeds
    stated = _STATED * passes
    row = [name, str(len(rates)), str(stated), str(sum(possible(rate, stated) for rate in rates)), _chance(stated)]
    fitting = (tasks for tasks in _CANDIDATES if all(possible(rate, tasks * passes) for rate in rates))
    fewest = next(fitting, None)
    return [*row, *([f"{fewest} ({fewest * passes})", _chance(fewest * passes)] if fewest else ["none", "–"])]


@cache
def _chance(episodes: int) -> str:
    """Return the share of all two-decimal rates that are possible with ``episodes``."""
    return f"{sum(possible(f'{i / 100:.2f}', episodes) for i in range(10001)) / 100.01:.0f} %"
