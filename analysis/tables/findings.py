"""Table findings: what follows from the runs, question by question."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from analysis.data.methods import environment_name, is_upper_bound, name_of, ordered
from analysis.data.reported import entries_of
from analysis.data.rows import EVERY_METHOD, METHOD, VARIANT, RowKey
from analysis.data.runs import Run, grouped
from analysis.data.statistics import Estimate, Interval
from analysis.data.studies import Studies, StudyRuns, select
from analysis.grid.artefact import artefact
from analysis.grid.notes import origins, protocol
from analysis.grid.ranking import MODEL
from analysis.grid.success import Rates, difference, interval_of, learning, with_interval
from analysis.grid.table import Table
from analysis.tables.ablations import ABLATIONS
from analysis.tables.blocks import IN_BLOCKS, differences, measured, row_label
from analysis.tables.blocks import KEYS as BLOCK_KEYS
from analysis.tables.headroom import BASE as NO_CREDIT
from analysis.tables.headroom import ORACLE, has_headroom
from analysis.tables.share_of_headroom import share

BASE, CRITIC = "gated_bepo", "ppo"
KEYS: Mapping[str, RowKey] = {**BLOCK_KEYS, **EVERY_METHOD, **dict.fromkeys(ABLATIONS, VARIANT), "replication": METHOD}
_ZERO = "credit/zero_advantage_transitions"
_FEWEST = 3  # blocks that a comparison needs
_REPORTED = {"alfworld": "alfworld/All", "webshop": "webshop/success"}  # the paper's columns of table main-results
_AXES = {
    "Does the gate matter?": ("gate", "n_min", "b_min", "full_visits", "gate_order"),
    "Do iterations of the fixed point matter?": ("iterations",),
    "Does the backup matter?": ("backup",),
    "Does the decay matter?": ("gae_lambda",),
    "Do step weight and outcome mixing matter?": ("step_weight", "mixing", "eta_min"),
}

ByName = Mapping[str, Sequence[Run]]


@artefact("findings", "table", study=KEYS)
def findings(studies: Studies) -> Table:
    """Answer the questions of a reader, one by environment."""
    one_start = [run for name in KEYS if name not in IN_BLOCKS for run in studies[name].runs]
    kept = [run for run in one_start if run.model == MODEL and not run.is_evaluation and "train/success" in run.metrics]
    alike = select(StudyRuns("findings", studies.tier, key=VARIANT), {run.id: run for run in kept}.values()).runs
    blocks = {run.id: run for name in IN_BLOCKS for run in studies[name].runs}
    by_env = grouped(sorted(alike, key=lambda run: (run.env, run.seed)), lambda run: run.env)
    rows = []
    for env, runs in by_env.items():
        by_name = grouped(runs, lambda run: str(VARIANT.row(run)))
        in_blocks = [run for run in blocks.values() if run.env == env]
        rows += [[question, environment_name(env), answer] for question, answer in _answers(env, by_name, in_blocks)]
    rows.sort(key=lambda row: _QUESTIONS.index(row[0]))
    used = [*alike, *blocks.values()]
    return Table(
        f"What follows from the runs, by question (success in training, in points, model {MODEL}).",
        ["Question", "Environment", "Answer"],
        rows,
        [
            " ".join(protocol(studies.values(), used)),
            "Success in training is averaged over all updates. Square brackets: 95 % intervals, Welch's "
            "over training seeds of one start; in the first question they are paired over blocks where at least "
            f"{_FEWEST} were trained. Table blocks-methods has the blocks of the other questions' variants. No "
            "interval is corrected, so this table is exploratory; the tables blocks-claims, replication and claims "
            "have the tests. "
            "Order: Spearman's correlation of the reported final success with ours in training, over the methods that "
            "both have. Last questions: the variants of Gated-BEPO that differ from its defaults in this part alone.",
            *origins(used),
        ],
        left=3,
        widths={0: 0.2, 2: 0.6},
        short=True,
    )


def _answers(env: str, by_name: ByName, in_blocks: Sequence[Run]) -> Iterator[tuple[str, str]]:
    rates = {name: learning(runs) for name, runs in by_name.items()}
    if BASE in rates:
        yield _QUESTIONS[0], _compared(rates, in_blocks)
    if env in _REPORTED and (order := _order(env, rates)):
        yield _QUESTIONS[1], order
    if CRITIC in rates and BASE in rates:
        yield _QUESTIONS[2], _lead(by_name, rates)
    if NO_CREDIT in rates and ORACLE in rates and has_headroom(by_name[NO_CREDIT], by_name[ORACLE]):
        names = [name for name in ordered(rates) if " " not in name and name not in (NO_CREDIT, ORACLE)]
        yield _QUESTIONS[3], "; ".join(f"{name_of(name)} {share(name, rates)} %" for name in names)
    for question, fields in _AXES.items():
        if BASE in rates and (variants := [name for name in rates if _differs_in(name, fields)]):
            yield question, _axis(variants, rates)


@dataclass(frozen=True)
class _Difference:
    """A difference of means in points, with its 95 % interval and as text."""

    value: float
    interval: Interval
    text: str

    @property
    def is_apart(self) -> bool:
        """Whether the interval excludes zero."""
        return self.interval.low > 0 or self.interval.high < 0


def _difference(slopes: Sequence[float], samples: Sequence[Rates]) -> _Difference:
    value = float(sum(slope * rates.mean() for slope, rates in zip(slopes, samples)))
    return _Difference(value, interval_of(value, slopes, samples), with_interval(value, slopes, samples, "z.1f"))


def _compared(rates: Mapping[str, Rates], in_blocks: Sequence[Run]) -> str:
    """Return which methods are faster, which slower, and which cannot be told apart from Gated-BEPO."""
    blocks = {name: by["speed"] for name, by in measured(in_blocks).items()} if in_blocks else {}
    n = len(blocks.get(BASE, {}))
    if n >= _FEWEST:
        paired = {name: np.array([*differences(own, blocks[BASE]).values()]) for name, own in blocks.items()}
        found = {name: _difference([1], [values]) for name, values in paired.items() if len(values) >= _FEWEST}
    else:
        found = {name: _difference([1, -1], [own, rates[BASE]]) for name, own in rates.items() if " " not in name}
    found.pop(BASE, None)
    kinds: dict[str, list[str]] = {"faster": [], "slower": [], "not told apart": []}
    for name, one in sorted(found.items(), key=lambda item: -item[1].value):
        kind = "not told apart" if not one.is_apart else "faster" if one.value > 0 else "slower"
        kinds[kind].append(f"{row_label(name)} {one.text}")
    told = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names)
    return f"{f'{n} blocks' if n >= _FEWEST else 'One warm start'}. {told[:1].upper()}{told[1:]}"


def _order(env: str, rates: Mapping[str, Rates]) -> str:
    printed = {e.row: e.value for e in entries_of("main-results") if (e.group, e.column) == ("1.5B", _REPORTED[env])}
    theirs = {name: value.mean for name, value in printed.items() if name in rates and isinstance(value, Estimate)}
    ours = [float(rates[name].mean()) for name in theirs]
    if len(theirs) < _FEWEST or len(set(ours)) == 1:  # equal values have no order
        return ""
    correlation, _ = spearmanr(list(theirs.values()), ours)
    return f"Spearman's correlation {correlation:.2f} over {len(theirs)} methods"


def _lead(by_name: ByName, rates: Mapping[str, Rates]) -> str:
    """Return PPO's difference from the best method that compares trajectories, and how the two differ otherwise."""
    others = [name for name in rates if " " not in name and name != CRITIC and not is_upper_bound(name)]
    best = max(others, key=lambda name: float(rates[name].mean()))
    own, other = by_name[CRITIC], by_name[best]
    told = [f"{difference(rates[CRITIC], rates[best])} against {name_of(best)}, the best without a critic"]
    if None not in (tasks := [_tasks(runs[0]) for runs in (own, other)]):
        told.append(f"an update has {tasks[0]} tasks instead of {tasks[1]}")
    if _ZERO in own[0].metrics and _ZERO in other[0].metrics:
        zero = [100 * float(np.mean([run.mean(_ZERO) for run in runs])) for runs in (own, other)]
        told.append(f"{zero[0]:.0f} % instead of {zero[1]:.0f} % of transitions have no advantage")
    if min(cost := [float(np.mean([_seconds(run) for run in runs])) for runs in (own, other)]) > 0:
        told.append(f"it costs {cost[0] / cost[1]:.1f} times the CPU seconds")
    return "; ".join(told)


def _tasks(run: Run) -> int | None:
    """Return the tasks of an update; None if the run does not say it."""
    tasks, size, grouped_by_task = run["rollout.tasks"], run["rollout.group_size"], run["rollout.grouped"]
    if tasks is None or size is None:
        return None
    return int(tasks) * (1 if grouped_by_task in (None, True) else int(size))


def _seconds(run: Run) -> float:
    return float(run.metrics.filter(like="seconds/").sum().sum())  # evaluations are NaN in most updates


def _axis(variants: Sequence[str], rates: Mapping[str, Rates]) -> str:
    """Return the differences of variants from Gated-BEPO, and how many intervals exclude zero."""
    found = {name.removeprefix(BASE).strip(): _difference([1, -1], [rates[name], rates[BASE]]) for name in variants}
    apart = sum(one.is_apart for one in found.values())
    told = (f"{name} {one.text}" for name, one in sorted(found.items(), key=lambda item: item[1].value))
    return f"{apart} of {len(found)} intervals exclude zero: {', '.join(told)}"


def _differs_in(name: str, fields: Sequence[str]) -> bool:
    base, _, settings = name.partition(" ")
    return base == BASE and bool(settings) and all(one.split("=")[0] in fields for one in settings.split(" "))


_QUESTIONS = (
    "Which methods learn faster or slower than Gated-BEPO?",
    "Does the paper's order of methods hold?",
    "What goes with PPO's difference?",
    "How much of the oracle's headroom does a method gain?",
    *_AXES,
)
