"""Table critic-lead: the declared tests of docs/claims.md about PPO's lead: the same tasks, and no critic."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from analysis.claims.blocks import measured, speed_by_row
from analysis.claims.declared import FIRST_SIX, DeclaredTest
from analysis.contrast import Contrast
from analysis.data.methods import environment_name
from analysis.data.rows import TASKS
from analysis.data.runs import Run, grouped
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.contrasts import ByBlock, paired
from analysis.grid.notes import origins, protocol
from analysis.grid.success import mean_of
from analysis.grid.table import Printed, Table

STUDIES = ("blocks", "critic_lead", "frontier")
_BASE, _SAME, _MORE = "grpo", "ppo grouped", "ppo"
_NO_CRITIC = "rebn"
_TESTED = "webshop"
UNSEEN = range(103, 106)
"""Blocks of which nothing of ReBN had been read when its test was declared."""

Speeds = Mapping[str, ByBlock]
"""Success in training by method and block: of GRPO and both of PPO in the blocks that they share, and of ReBN."""


@artefact("critic-lead", "table", study=STUDIES, key=TASKS)
def critic_lead(studies: Studies) -> Table:
    """Compare GRPO, PPO on the same tasks and PPO with more tasks, in the declared blocks that all three have."""
    by_env = _runs(studies)
    used = [run for runs in by_env.values() for run in runs]
    speeds = {env: _speeds(runs) for env, runs in by_env.items()}
    same_tasks, no_critic = _declared(studies.tier, speeds.get(_TESTED, {}))
    return Table(
        "PPO with a critic on the same tasks as GRPO, and with each trajectory from another task, in blocks.",
        ["Environment", "Blocks", "GRPO", "PPO, same tasks", "PPO, more", "Same - GRPO", "More - same", "ReBN - GRPO"],
        [_row(env, own) for env, own in speeds.items()],
        [
            " ".join(protocol(studies.values(), used)),
            "Success in training (%), averaged over all updates: mean over blocks ± one sample standard deviation. "
            "Differences: with Student's 95 % interval. More: each trajectory is of another task, so an update has "
            "twice as many tasks on WebShop, four times on ALFWorld, eight times on text Sokoban. PPO also "
            "standardises over the whole batch. So does ReBN, without a critic and on the same tasks (in brackets: its "
            "blocks).",
            "Declared in docs/claims.md before a run in a block had the same tasks: on WebShop PPO on the "
            f"same tasks {same_tasks.told}. The number: how many points more than half of the lead it keeps.",
            "Declared after ReBN's first three blocks had been read: on the same tasks of WebShop ReBN "
            f"{no_critic.told}. The number: how many points more than half.",
            *origins(used),
        ],
        facts=same_tasks.facts | no_critic.facts | _facts(speeds),
    )


def leads(studies: Studies, fewest: int) -> dict[str, str]:
    """Return PPO's lead over GRPO and what remains of it on the same tasks, by environment with enough blocks."""
    every = {env: _speeds(runs) for env, runs in _runs(studies).items()}
    return {env: _told(own) for env, own in every.items() if len(own[_BASE]) >= fewest}


def _told(own: Speeds) -> str:
    lead, rest = (Contrast.over(paired(own[name], own[_BASE])).text() for name in (_MORE, _SAME))
    return f"{len(own[_BASE])} blocks: {lead} against GRPO, on the same tasks {rest}"


def _runs(studies: Studies) -> dict[str, list[Run]]:
    """Return the runs in the declared blocks that GRPO and both of PPO have, by environment."""
    every = Studies({name: replace(studies[name], key=TASKS) for name in STUDIES}).pooled()
    chosen = [run for run in every if TASKS.row(run) in (_BASE, _SAME, _MORE, _NO_CRITIC) and run.seed in FIRST_SIX]
    found = {}
    for env, runs in grouped(sorted(chosen, key=lambda run: run.env), lambda run: run.env).items():
        blocks = [{run.seed for run in runs if TASKS.row(run) == name} for name in (_BASE, _SAME, _MORE)]
        if shared := set.intersection(*blocks):
            found[env] = [run for run in runs if run.seed in shared]
    return found


def _speeds(runs: list[Run]) -> Speeds:
    return speed_by_row(measured(runs, lambda run: str(TASKS.row(run))))


def _declared(tier: str, own: Speeds) -> tuple[DeclaredTest, DeclaredTest]:
    """Return the tests of PPO on the same tasks and of ReBN: does more than half of a lead over GRPO remain?"""
    keeps = ("keeps more than half of its lead over GRPO", "does not keep more than half of its lead over GRPO")
    has = ("has more than half of PPO's lead", "does not have more than half of PPO's lead")
    same, rebn = _beyond_half(own, _SAME, _MORE), _beyond_half(own, _NO_CRITIC, _SAME)
    return (
        DeclaredTest("critic-lead", tier, same, keeps),
        DeclaredTest("critic-lead/rebn", tier, rebn, has, unseen=UNSEEN),
    )


def _beyond_half(own: Speeds, method: str, lead: str) -> ByBlock:
    """Return by block how far a method is beyond half of another's lead over GRPO."""
    return {block: rate - (own[_BASE][block] + own[lead][block]) / 2 for block, rate in own.get(method, {}).items()}


def _facts(speeds: Mapping[str, Speeds]) -> dict[str, str]:
    """Return the differences by environment, for the paper's text."""
    found = {}
    for env, own in speeds.items():
        for name, pair in {"same": (_SAME, _BASE), "lead": (_MORE, _BASE)}.items():
            found[f"critic-lead/{env}/{name}"] = Contrast.over(paired(*(own[row] for row in pair))).text()
    return found


def _row(env: str, own: Speeds) -> list[Printed | str]:
    means = [mean_of(np.array(list(own[name].values()))) for name in (_BASE, _SAME, _MORE)]
    differences = [Contrast.over(paired(own[a], own[b])).text() for a, b in ((_SAME, _BASE), (_MORE, _SAME))]
    rebn = paired(own.get(_NO_CRITIC, {}), own[_BASE])
    last = f"{Contrast.over(rebn).text()} ({len(rebn)})" if len(rebn) else "–"
    return [environment_name(env), str(len(own[_BASE])), *means, *differences, last]
