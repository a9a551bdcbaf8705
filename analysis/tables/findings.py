"""Table findings: what follows from the runs about methods, question by question."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import scipy  # loads scipy.stats when it is used

from analysis.claims.blocks import measured, measured_by_env, runs_in_blocks
from analysis.claims.looks import read_plan
from analysis.claims.prediction import Prediction
from analysis.contrast import Contrast, Rates
from analysis.data.methods import environment_name, is_privileged, marked_name, ordered
from analysis.data.reported import entries_of
from analysis.data.rows import BASELINE, EVERY_METHOD, METHOD, TASKS, VARIANT, RowKey
from analysis.data.runs import Run, grouped
from analysis.data.statistics import Estimate
from analysis.data.studies import Studies, StudyRuns, select
from analysis.grid.artefact import artefact
from analysis.grid.contrasts import by_place, contrasts, shares
from analysis.grid.notes import origins, protocol
from analysis.grid.ranking import MODEL
from analysis.grid.success import difference, learning
from analysis.grid.table import Printed, Table
from analysis.tables.ablations import ABLATIONS
from analysis.tables.blocks import KEYS as BLOCK_KEYS
from analysis.tables.headroom import NO_CREDIT, ORACLE, has_headroom, oracles
from analysis.tables.in_blocks import difference as difference_of
from analysis.tables.in_blocks import read_tables

CRITIC = "ppo"
_ONE_START: Mapping[str, RowKey] = {**EVERY_METHOD, **dict.fromkeys(ABLATIONS, VARIANT), "replication": METHOD}
KEYS = {**BLOCK_KEYS, **_ONE_START, "critic_lead": TASKS}
_ZERO = "credit/zero_advantage_transitions"
_REPORTED = {
    "alfworld": ("main-results", "1.5B", "alfworld/All"),
    "webshop": ("main-results", "1.5B", "webshop/success"),
}
"""The table, group and column of the paper that an environment's order is compared with."""
_FEWEST_METHODS = 6
_SHARE = "z.0f"

ByName = Mapping[str, Sequence[Run]]


@dataclass(frozen=True)
class Trained:
    """The runs of one environment and the small model, by row.

    ``one_start``: comparable runs that share a warm start. ``in_blocks``: success in training, blocks by
    rows, of rows with enough blocks.
    """

    one_start: ByName
    in_blocks: pd.DataFrame

    @cached_property
    def rates(self) -> Mapping[str, Rates]:
        """Success in training from one start."""
        return {name: learning(runs) for name, runs in self.one_start.items()}

    @cached_property
    def differences(self) -> Mapping[str, Contrast]:
        """Each row minus Gated-BEPO."""
        return contrasts(BASELINE, self.rates, self.in_blocks)


@artefact("findings", "table", study=KEYS)
def findings(studies: Studies) -> Table:
    """Answer a reader's questions about methods, one by environment."""
    by_env, used = trained(studies)
    of_methods = {run.id for name in EVERY_METHOD for run in studies[name].runs}
    rows, facts, ranges, of_critic = [], {}, [], _critic_in_blocks(studies)
    for env, data in by_env.items():
        gained = _gained([run for runs in data.one_start.values() for run in runs if run.id in of_methods], data)
        answers = _answers(env, data, gained, of_critic.get(env, ""))
        rows += [[question, environment_name(env), answer] for question, answer in answers]
        facts |= {f"findings/share/{env}/{name}": share.text(_SHARE) for name, share in gained.items()}
        ranges += _range_of_shares(env, data.in_blocks, gained)
    rows.sort(key=lambda row: _QUESTIONS.index(row[0]))
    return Table(
        f"What follows from the runs, by question (success in training, in points, model {MODEL}).",
        ["Question", "Environment", "Answer"],
        rows,
        [
            " ".join(protocol(studies.values(), used)),
            f"{exploratory()} The order: Spearman's correlation of reported final success with ours in training, "
            "interval over resampled blocks. PPO from one start is compared with the best of several means, which "
            "favours that one. Headroom: methods with the most blocks. The oracle is not a bound: a share may be above "
            f"100 %. Shares of single blocks, of the method with the largest: {'; '.join(ranges) or 'no blocks'}.",
            *oracles(used),
            *origins(used),
        ],
        used=used,
        left=3,
        widths={0: 0.21, 2: 0.70},
        short=True,
        facts=facts,
    )


def trained(studies: Studies) -> tuple[Mapping[str, Trained], list[Run]]:
    """Return the trained rows by environment, and every run that was used."""
    one_start = [run for name in _ONE_START for run in studies[name].runs]
    kept = [run for run in one_start if run.model == MODEL and not run.is_evaluation and "train/success" in run.metrics]
    alike = select(StudyRuns("findings", studies.tier, key=VARIANT), {run.id: run for run in kept}.values()).runs
    blocks = runs_in_blocks(studies)
    in_blocks = measured_by_env(blocks)
    by_env = {}
    for env, runs in grouped(sorted(alike, key=lambda run: (run.env, run.seed)), lambda run: run.env).items():
        every = in_blocks.get(env, measured([]))["speed"]
        enough = every.dropna(axis="columns", thresh=enough_blocks())
        by_env[env] = Trained(grouped(runs, lambda run: str(VARIANT.row(run))), enough)
    return by_env, [*alike, *blocks]


def enough_blocks() -> int:
    """Return the number of blocks that count instead of the runs from one start."""
    return read_plan().looks[0].blocks


def exploratory() -> str:
    """Return the note about differences in training."""
    return (
        "Success in training: over all updates. Exploratory, uncorrected 95 % intervals; tests are in tables "
        "blocks-claims, replication and claims. Intervals are paired over shared blocks, where at least "
        f"{enough_blocks()} are trained, else Welch's over seeds."
    )


def _gained(compared: Sequence[Run], data: Trained) -> dict[str, Contrast]:
    """Return each method's share of the oracle's headroom. ``compared``: the runs of table share-of-headroom."""
    by_name = grouped(compared, lambda run: str(VARIANT.row(run)))
    if not {NO_CREDIT, ORACLE} <= by_name.keys() or not has_headroom(by_name[NO_CREDIT], by_name[ORACLE]):
        return {}
    gained = shares((NO_CREDIT, ORACLE), {name: learning(runs) for name, runs in by_name.items()}, data.in_blocks)
    return {name: gained[name] for name in ordered(gained) if " " not in name}


def _range_of_shares(env: str, in_blocks: pd.DataFrame, gained: Mapping[str, Contrast]) -> list[str]:
    """Return the smallest and largest share of a block, of the method that gains most in blocks; or nothing."""
    names = [name for name in gained if name in in_blocks]
    if not names:
        return []
    best = max(names, key=lambda name: gained[name].value)
    common = in_blocks.reindex(columns=[NO_CREDIT, ORACLE, best]).dropna()
    shares = [100 * (method - grpo) / (oracle - grpo) for grpo, oracle, method in common.to_numpy() if oracle != grpo]
    if not shares:
        return []
    low, high = (Printed(Estimate(x), _SHARE).text for x in (min(shares), max(shares)))
    return [f"{environment_name(env)} {marked_name(best)} {low} to {high} %"]


def _answers(env: str, data: Trained, gained: Mapping[str, Contrast], lead: str) -> Iterator[tuple[str, str]]:
    """Yield questions and answers. ``lead``: PPO's, in blocks."""
    if methods := {name: contrast for name, contrast in data.differences.items() if " " not in name}:
        yield _QUESTIONS[0], by_place(methods, _sorted)
    if env in _REPORTED and (order := _order(env, data.rates, data.in_blocks)):
        yield _QUESTIONS[1], order
    if CRITIC in data.rates and BASELINE in data.rates:
        yield _QUESTIONS[2], _critic(data.one_start, data.rates, lead)
    if gained:
        most = max(share.units for share in gained.values())
        yield _QUESTIONS[3], by_place({name: share for name, share in gained.items() if share.units == most}, _in_order)


def _in_order(gained: Mapping[str, Contrast]) -> str:
    """Return the share of the headroom of every method."""
    return "; ".join(f"{marked_name(name)} {share.text(_SHARE)} %" for name, share in gained.items())


def _sorted(gaps: Mapping[str, Contrast]) -> str:
    """Return the methods by kind: faster than Gated-BEPO, slower, and not told apart from it."""
    kinds: dict[str, list[str]] = {"faster": [], "slower": [], "not told apart": []}
    for name, contrast in sorted(gaps.items(), key=lambda item: -item[1].value):
        kind = "not told apart" if not contrast.is_apart else "faster" if contrast.value > 0 else "slower"
        kinds[kind].append(f"{marked_name(name)} {contrast.text()}")
    return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names)


def _order(env: str, rates: Mapping[str, Rates], speeds: pd.DataFrame) -> str:
    """Return the rank correlation of reported final success with ours in training, over blocks if there are enough."""
    label, *place = _REPORTED[env]
    printed = {e.row: e.value for e in entries_of(label) if [e.group, e.column] == place}
    theirs = {name: value.mean for name, value in printed.items() if isinstance(value, Estimate)}
    if len(names := [name for name in theirs if name in speeds]) >= _FEWEST_METHODS:
        shared = speeds.reindex(columns=names).dropna()
        if len(shared) >= enough_blocks():
            told = f"{len(shared)} blocks: Spearman's correlation {_correlation(theirs, shared)}"
            others = [name for name in names if name != CRITIC]
            rest = "" if others == names else f", without PPO {_correlation(theirs, shared.reindex(columns=others))}"
            return f"{told} over {len(names)} methods{rest}"
    names = [name for name in theirs if name in rates]
    ours = [float(rates[name].mean()) for name in names]
    if len(names) < _FEWEST_METHODS or len(set(ours)) == 1:  # equal values have no order
        return ""
    correlation, _ = scipy.stats.spearmanr([theirs[name] for name in names], ours)
    return f"One start: Spearman's correlation {correlation:.2f} over {len(names)} methods"


def _correlation(theirs: Mapping[str, float], speeds: pd.DataFrame) -> str:
    """Return the rank correlation of reported success with speed over the methods of a table, with its interval."""
    reported = np.array([theirs[name] for name in speeds])
    return Prediction("reported", "", False, reported, speeds.index.tolist(), speeds.to_numpy().T).text


def _critic(by_name: ByName, rates: Mapping[str, Rates], in_blocks: str) -> str:
    """Return PPO's improvement over GRPO in blocks, or over the best method without a critic, and how they differ."""
    others = [name for name in rates if " " not in name and name != CRITIC and not is_privileged(name)]
    best = max(others, key=lambda name: float(rates[name].mean()))
    critic, other = by_name[CRITIC], by_name[best]
    told = []
    if _ZERO in critic[0].metrics and _ZERO in other[0].metrics:
        zero = [100 * float(np.mean([run.mean(_ZERO) for run in runs])) for runs in (critic, other)]
        told.append(f"{zero[0]:.0f} % instead of {zero[1]:.0f} % of transitions have no advantage")
    if in_blocks:
        return ". ".join([in_blocks, *(f"One start, against {marked_name(best)}: {text}" for text in told)])
    if min(cost := [float(np.mean([_seconds(run) for run in runs])) for runs in (critic, other)]) > 0:
        told.append(f"it costs {cost[0] / cost[1]:.1f} times the CPU seconds")
    if None not in (tasks := [_tasks(runs[0]) for runs in (critic, other)]):
        told.insert(0, f"an update has {tasks[0]} tasks instead of {tasks[1]}")
    ahead = f"{difference(rates[CRITIC], rates[best])} against {marked_name(best)}, the best without a critic"
    return "; ".join([ahead, *told])


def _critic_in_blocks(studies: Studies) -> dict[str, str]:
    """Return PPO's improvement over GRPO, also on the same tasks, by environment with enough blocks."""
    told = {}
    for env, frames in read_tables()["critic-lead"].frames(studies)[0].items():
        speed = frames["speed"]
        improvement, rest = (difference_of(speed, name, NO_CREDIT).text() for name in (CRITIC, f"{CRITIC} grouped"))
        if len(speed) >= enough_blocks():
            told[env] = f"{len(speed)} blocks: {improvement} against GRPO, on the same tasks {rest}"
    return told


def _tasks(run: Run) -> int | None:
    """Return the tasks of an update; None if the run does not say it."""
    tasks, size, grouped_by_task = run["rollout.tasks"], run["rollout.group_size"], run["rollout.grouped"]
    if tasks is None or size is None:
        return None
    return int(tasks) * (1 if grouped_by_task in (None, True) else int(size))


def _seconds(run: Run) -> float:
    return float(run.metrics.filter(like="seconds/").sum().sum())  # evaluations are NaN in most updates


_QUESTIONS = (
    "Which methods learn faster or slower than Gated-BEPO?",
    "Does the paper's order hold?",
    "What goes with PPO's difference?",
    "How much of the oracle's headroom does a method gain?",
)
