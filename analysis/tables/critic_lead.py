"""Table critic-lead: the declared test of docs/claims.md, what the lead of PPO with a critic is made of."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from analysis.claims.blocks import measured
from analysis.claims.declared import FIRST_SIX, DeclaredTest
from analysis.data.methods import environment_name
from analysis.data.rows import TASKS
from analysis.data.runs import Run, grouped
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.contrasts import ByBlock, paired
from analysis.grid.notes import origins, protocol
from analysis.grid.success import mean_of, mean_with_interval
from analysis.grid.table import Printed, Table

STUDIES = ("blocks", "critic_lead")
_BASE, _SAME, _MORE = "grpo", "ppo grouped", "ppo"
_TESTED = "webshop"


@artefact("critic-lead", "table", study=STUDIES, key=TASKS)
def critic_lead(studies: Studies) -> Table:
    """Compare GRPO, PPO on the same tasks and PPO with more tasks, in the declared blocks that all three have."""
    used, speeds = _used(studies), speeds_by_env(studies)
    words = ("is more than half of the lead", "is not more than half of the lead")
    rest = _beyond_half(speeds.get(_TESTED, {}))
    test = DeclaredTest("critic-lead", studies.tier, rest, words)
    rows = [_row(env, own) for env, own in speeds.items()]
    return Table(
        "PPO with a critic on the same tasks as GRPO, and with each trajectory from another task, in blocks.",
        ["Environment", "Blocks", "GRPO", "PPO, same tasks", "PPO, more tasks", "Same - GRPO", "More - same"],
        rows,
        [
            " ".join(protocol(studies.values(), used)),
            "Success in training (%), averaged over all updates: mean over blocks ± one sample standard deviation. "
            "Differences: with Student's 95 % interval. More tasks: an update has as many trajectories, each of "
            "another task: twice as many tasks on WebShop, four times on ALFWorld, eight times on text Sokoban.",
            "Declared in docs/claims.md before a run in a block had the same tasks: on WebShop what remains of PPO's "
            f"lead over GRPO on the same tasks {test.told}. The number is what remains beyond half of the lead.",
            *origins(used),
        ],
        facts=test.facts | _facts(speeds),
    )


def speeds_by_env(studies: Studies) -> dict[str, dict[str, ByBlock]]:
    """Return the success in training of GRPO, of PPO on the same tasks and of PPO with more tasks, by environment.

    Of the declared blocks they have those that all three share. An environment without such blocks is left out.
    """
    by_env = grouped(sorted(_used(studies), key=lambda run: run.env), lambda run: run.env)
    found = {env: _shared(measured(runs, lambda run: str(TASKS.row(run)))) for env, runs in by_env.items()}
    return {env: own for env, own in found.items() if own}


def told(speeds: Mapping[str, ByBlock]) -> str:
    """Return PPO's lead over GRPO in the blocks of an environment, and what remains of it on the same tasks."""
    base, same, more = (speeds[name] for name in (_BASE, _SAME, _MORE))
    lead, rest = (mean_with_interval(paired(own, base)) for own in (more, same))
    return f"{len(base)} blocks: {lead} against GRPO, on the same tasks {rest}"


def _used(studies: Studies) -> list[Run]:
    every = Studies({name: replace(studies[name], key=TASKS) for name in STUDIES}).pooled()
    return [run for run in every if TASKS.row(run) in (_BASE, _SAME, _MORE) and run.seed in FIRST_SIX]


def _shared(by_row: Mapping[str, Mapping[str, ByBlock]]) -> dict[str, ByBlock]:
    """Return the speeds of all three in the blocks that they share; empty if there are none."""
    own = [by_row.get(name, {}).get("speed", {}) for name in (_BASE, _SAME, _MORE)]
    blocks = sorted(set.intersection(*map(set, own)))
    return {name: {b: x[b] for b in blocks} for name, x in zip((_BASE, _SAME, _MORE), own)} if blocks else {}


def _beyond_half(speeds: Mapping[str, ByBlock]) -> ByBlock:
    if not speeds:
        return {}
    base, same, more = (speeds[name] for name in (_BASE, _SAME, _MORE))
    return {block: same[block] - (base[block] + more[block]) / 2 for block in same}


def _facts(speeds: Mapping[str, Mapping[str, ByBlock]]) -> dict[str, str]:
    """Return the differences by environment, for the paper's text."""
    found = {}
    for env, own in speeds.items():
        for name, (more, less) in {"same": (_SAME, _BASE), "more": (_MORE, _SAME), "lead": (_MORE, _BASE)}.items():
            found[f"critic-lead/{env}/{name}"] = mean_with_interval(paired(own[more], own[less]))
    return found


def _row(env: str, speeds: Mapping[str, ByBlock]) -> list[Printed | str]:
    base, same, more = (speeds[name] for name in (_BASE, _SAME, _MORE))
    means = [mean_of(np.array(list(own.values()))) for own in (base, same, more)]
    differences = [mean_with_interval(paired(*pair)) for pair in ((same, base), (more, same))]
    return [environment_name(env), str(len(base)), *means, *differences]
