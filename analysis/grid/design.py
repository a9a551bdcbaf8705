"""The design behind a table or figure, in one sentence: how many updates, and what its runs share."""

from collections.abc import Iterable, Sequence

from analysis.data.methods import environment_name
from analysis.data.runs import Run, grouped


def design(runs: Iterable[Run]) -> str:
    """Return the updates of each environment, and whether runs are in blocks or share a warm start.

    A block has its own warm start, task order and training seed. The sentence is empty without trainings.
    """
    by_start = grouped((run for run in runs if not run.is_evaluation), lambda run: (run.env, _start(run)))
    in_blocks = [run for (_, start), same in by_start.items() if _is_block(start, same) for run in same]
    known = {run.id for run in in_blocks}
    others = [run for same in by_start.values() for run in same if run.id not in known]
    parts = [f"{_updates(in_blocks)} in {_counted(_starts(in_blocks), 'block')}"] if in_blocks else []
    for bare, same in grouped(others, lambda run: _start(run) is None).items():
        seeds = {env: {run.seed for run in of_env} for env, of_env in grouped(same, lambda run: run.env).items()}
        start = "without a warm start" if bare else f"from {_counted(_starts(same), 'warm start')}"
        parts.append(f"{_updates(same)} {start}, {_counted(seeds, 'training seed')}")
    return f"Design: {'; '.join(parts)}." if parts else ""


def _start(run: Run) -> int | None:
    return run["policy.warm_start.seed"]


def _is_block(start: int | None, runs: Sequence[Run]) -> bool:
    """Whether these runs of one warm start are a block: start 0, the default, is shared by all training seeds."""
    return bool(start) and {run.seed for run in runs} == {start}


def _starts(runs: Iterable[Run]) -> dict[str, set[int | None]]:
    return {env: {_start(run) for run in of_env} for env, of_env in grouped(runs, lambda run: run.env).items()}


def _updates(runs: Iterable[Run]) -> str:
    by_env = grouped(sorted(runs, key=lambda run: run.env), lambda run: run.env)
    return ", ".join(
        f"{environment_name(env)} {' and '.join(map(str, sorted({run.updates for run in of_env})))}"
        + " updates" * (env == next(iter(by_env)))
        for env, of_env in by_env.items()
    )


def _counted(by_env: dict[str, set], what: str) -> str:
    """Return a count and its unit: ``6 to 16 blocks``."""
    least, most = min(map(len, by_env.values())), max(map(len, by_env.values()))
    number = str(most) if least == most else f"{least} to {most}"
    return f"{'one' if number == '1' else number} {what}{'s' * (number != '1')}"
