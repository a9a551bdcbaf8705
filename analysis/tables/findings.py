"""Table findings: what follows from the runs, question by question."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from scipy.stats import spearmanr

from analysis.claims.blocks import measured_by_env, runs_in_blocks
from analysis.claims.looks import read_plan
from analysis.claims.prediction import FEWEST as FEWEST_BLOCKS
from analysis.claims.prediction import Prediction
from analysis.data.methods import environment_name, is_upper_bound, marked_name, ordered
from analysis.data.reported import entries_of
from analysis.data.rows import EVERY_METHOD, METHOD, TASKS, VARIANT, RowKey
from analysis.data.runs import Run, grouped
from analysis.data.statistics import Estimate
from analysis.data.studies import Studies, StudyRuns, select
from analysis.grid.artefact import artefact
from analysis.grid.contrasts import ByBlock, Contrast, by_place, contrasts, shares
from analysis.grid.notes import origins, protocol
from analysis.grid.ranking import MODEL
from analysis.grid.success import Rates, difference, learning
from analysis.grid.table import Table
from analysis.tables import critic_lead
from analysis.tables.ablations import ABLATIONS
from analysis.tables.blocks import KEYS as BLOCK_KEYS
from analysis.tables.headroom import BASE as NO_CREDIT
from analysis.tables.headroom import ORACLE, has_headroom, oracles

BASE, CRITIC = "gated_bepo", "ppo"
_ONE_START: Mapping[str, RowKey] = {**EVERY_METHOD, **dict.fromkeys(ABLATIONS, VARIANT), "replication": METHOD}
KEYS = {**BLOCK_KEYS, **_ONE_START, "critic_lead": TASKS}
_ZERO = "credit/zero_advantage_transitions"
_REPORTED = {
    "alfworld": ("main-results", "1.5B", "alfworld/All"),
    "webshop": ("main-results", "1.5B", "webshop/success"),
}
"""The table, group and column of the paper that an environment's order is compared with."""
_FEWEST_METHODS = 6
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
    one_start = [run for name in _ONE_START for run in studies[name].runs]
    kept = [run for run in one_start if run.model == MODEL and not run.is_evaluation and "train/success" in run.metrics]
    alike = select(StudyRuns("findings", studies.tier, key=VARIANT), {run.id: run for run in kept}.values()).runs
    blocks = runs_in_blocks(studies)
    in_blocks, enough = measured_by_env(blocks), read_plan().looks[0].blocks
    of_methods = {run.id for name in EVERY_METHOD for run in studies[name].runs}
    by_env = grouped(sorted(alike, key=lambda run: (run.env, run.seed)), lambda run: run.env)
    rows, facts, leads = [], {}, critic_lead.leads(studies, enough)
    for env, runs in by_env.items():
        by_name = grouped(runs, lambda run: str(VARIANT.row(run)))
        every = {name: by_measure["speed"] for name, by_measure in in_blocks.get(env, {}).items()}
        speeds = {name: by_block for name, by_block in every.items() if len(by_block) >= enough}
        gained = _gained([run for run in runs if run.id in of_methods], speeds)
        answers = _answers(env, by_name, speeds, gained, leads.get(env, ""))
        rows += [[question, environment_name(env), answer] for question, answer in answers]
        facts |= {f"findings/share/{env}/{name}": one.text for name, one in gained.items()}
    rows.sort(key=lambda row: _QUESTIONS.index(row[0]))
    used = [*alike, *blocks]
    return Table(
        f"What follows from the runs, by question (success in training, in points, model {MODEL}).",
        ["Question", "Environment", "Answer"],
        rows,
        [
            " ".join(protocol(studies.values(), used)),
            "Success in training: over all updates. Exploratory, uncorrected 95 % intervals; tests are in tables "
            "blocks-claims, replication and claims. Intervals are paired over shared blocks, where at least "
            f"{enough} are trained, else Welch's over seeds. The order: Spearman's "
            "correlation of reported final success with ours in training, interval over resampled blocks. PPO from "
            "one start is compared with the best of several means, which favours that one. Headroom: methods "
            "with the most blocks. Last questions: variants of Gated-BEPO that differ in this part alone.",
            *oracles(used),
            *origins(used),
        ],
        left=3,
        widths={0: 0.21, 2: 0.70},
        short=True,
        facts=facts,
    )


def _gained(compared: Sequence[Run], speeds: Mapping[str, ByBlock]) -> dict[str, Contrast]:
    """Return each method's share of the oracle's headroom. ``compared``: the runs of table share-of-headroom."""
    by_name = grouped(compared, lambda run: str(VARIANT.row(run)))
    if not {NO_CREDIT, ORACLE} <= by_name.keys() or not has_headroom(by_name[NO_CREDIT], by_name[ORACLE]):
        return {}
    gained = shares((NO_CREDIT, ORACLE), {name: learning(runs) for name, runs in by_name.items()}, speeds)
    return {name: gained[name] for name in ordered(gained) if " " not in name}


def _answers(
    env: str,
    by_name: ByName,
    speeds: Mapping[str, ByBlock],
    gained: Mapping[str, Contrast],
    lead: str,
) -> Iterator[tuple[str, str]]:
    """Yield questions and answers. ``speeds``: success in training, by row and block; ``lead``: PPO's, in blocks."""
    rates = {name: learning(runs) for name, runs in by_name.items()}
    found = contrasts(BASE, rates, speeds)
    if methods := {name: one for name, one in found.items() if " " not in name}:
        yield _QUESTIONS[0], by_place(methods, _sorted)
    if env in _REPORTED and (order := _order(env, rates, speeds)):
        yield _QUESTIONS[1], order
    if CRITIC in rates and BASE in rates:
        yield _QUESTIONS[2], _lead(by_name, rates, lead)
    if gained:
        most = max(one.blocks for one in gained.values())
        shown = {name: one for name, one in gained.items() if one.blocks == most}
        yield _QUESTIONS[3], by_place(shown, _in_order)
    for question, fields in _AXES.items():
        if variants := {name: one for name, one in found.items() if _differs_in(name, fields)}:
            apart = sum(one.is_apart for one in variants.values())
            told = by_place(variants, _by_value)
            yield question, f"{apart} of {len(variants)} intervals exclude zero. {told}"


def _in_order(found: Mapping[str, Contrast]) -> str:
    """Return the share of the headroom of every method."""
    return "; ".join(f"{marked_name(name)} {one.text} %" for name, one in found.items())


def _sorted(found: Mapping[str, Contrast]) -> str:
    """Return which methods are faster, which slower, and which cannot be told apart from Gated-BEPO."""
    kinds: dict[str, list[str]] = {"faster": [], "slower": [], "not told apart": []}
    for name, one in sorted(found.items(), key=lambda item: -item[1].value):
        kind = "not told apart" if not one.is_apart else "faster" if one.value > 0 else "slower"
        kinds[kind].append(f"{marked_name(name)} {one.text}")
    return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names)


def _by_value(found: Mapping[str, Contrast]) -> str:
    """Return the differences of variants from Gated-BEPO."""
    ascending = sorted(found.items(), key=lambda item: item[1].value)
    return ", ".join(f"{name.removeprefix(BASE).strip()} {one.text}" for name, one in ascending)


def _order(env: str, rates: Mapping[str, Rates], speeds: Mapping[str, ByBlock]) -> str:
    """Return the rank correlation of reported final success with ours in training, over blocks if there are enough."""
    label, *place = _REPORTED[env]
    printed = {e.row: e.value for e in entries_of(label) if [e.group, e.column] == place}
    theirs = {name: value.mean for name, value in printed.items() if isinstance(value, Estimate)}
    if len(names := [name for name in theirs if name in speeds]) >= _FEWEST_METHODS:
        shared = sorted(set.intersection(*(set(speeds[name]) for name in names)))
        if len(shared) >= FEWEST_BLOCKS:
            told = f"{len(shared)} blocks: Spearman's correlation {_correlation(theirs, speeds, names, shared)}"
            others = [name for name in names if name != CRITIC]
            rest = "" if others == names else f", without PPO {_correlation(theirs, speeds, others, shared)}"
            return f"{told} over {len(names)} methods{rest}"
    names = [name for name in theirs if name in rates]
    ours = [float(rates[name].mean()) for name in names]
    if len(names) < _FEWEST_METHODS or len(set(ours)) == 1:  # equal values have no order
        return ""
    correlation, _ = spearmanr([theirs[name] for name in names], ours)
    return f"One start: Spearman's correlation {correlation:.2f} over {len(names)} methods"


def _correlation(
    theirs: Mapping[str, float], speeds: Mapping[str, ByBlock], names: Sequence[str], blocks: Sequence[int]
) -> str:
    """Return the rank correlation of reported success with speed over some methods, with its interval."""
    table = np.array([[speeds[name][block] for block in blocks] for name in names])
    found = Prediction("reported", "", False, np.array([theirs[name] for name in names]), blocks, table)
    return f"{found.correlation:.2f} {found.interval.text('.2f', '')}"


def _lead(by_name: ByName, rates: Mapping[str, Rates], in_blocks: str) -> str:
    """Return PPO's lead in blocks, its lead over the best method without a critic, and how the two differ."""
    others = [name for name in rates if " " not in name and name != CRITIC and not is_upper_bound(name)]
    best = max(others, key=lambda name: float(rates[name].mean()))
    own, other = by_name[CRITIC], by_name[best]
    told = []
    if _ZERO in own[0].metrics and _ZERO in other[0].metrics:
        zero = [100 * float(np.mean([run.mean(_ZERO) for run in runs])) for runs in (own, other)]
        told.append(f"{zero[0]:.0f} % instead of {zero[1]:.0f} % of transitions have no advantage")
    if in_blocks:
        return ". ".join([in_blocks, *(f"One start, against {marked_name(best)}: {text}" for text in told)])
    if min(cost := [float(np.mean([_seconds(run) for run in runs])) for runs in (own, other)]) > 0:
        told.append(f"it costs {cost[0] / cost[1]:.1f} times the CPU seconds")
    if None not in (tasks := [_tasks(runs[0]) for runs in (own, other)]):
        told.insert(0, f"an update has {tasks[0]} tasks instead of {tasks[1]}")
    lead = f"{difference(rates[CRITIC], rates[best])} against {marked_name(best)}, the best without a critic"
    return "; ".join([lead, *told])


def _tasks(run: Run) -> int | None:
    """Return the tasks of an update; None if the run does not say it."""
    tasks, size, grouped_by_task = run["rollout.tasks"], run["rollout.group_size"], run["rollout.grouped"]
    if tasks is None or size is None:
        return None
    return int(tasks) * (1 if grouped_by_task in (None, True) else int(size))


def _seconds(run: Run) -> float:
    return float(run.metrics.filter(like="seconds/").sum().sum())  # evaluations are NaN in most updates


def _differs_in(name: str, fields: Sequence[str]) -> bool:
    base, _, settings = name.partition(" ")
    return base == BASE and bool(settings) and all(one.split("=")[0] in fields for one in settings.split(" "))


_QUESTIONS = (
    "Which methods learn faster or slower than Gated-BEPO?",
    "Does the paper's order hold?",
    "What goes with PPO's difference?",
    "How much of the oracle's headroom does a method gain?",
    *_AXES,
)
