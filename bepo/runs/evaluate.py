"""An evaluation: a run without training. Read ``evaluate`` from top to bottom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from bepo.core import phases
from bepo.core.errors import UserError, say
from bepo.policies import ADAPTER_CONFIG, PolicyConfig
from bepo.rollouts.task_sets import TaskSet, task_set
from bepo.runs.config import Config
from bepo.runs.metrics import of_several, success_rate
from bepo.runs.players import EnginePlayer, Player
from bepo.runs.session import RunSession, make_setup, task_sets_of
from bepo.store.find import find_run
from bepo.store.run_files import StoredRun
from bepo.store.runs import RunFolder


def evaluate(config: Config, overrides: Sequence[str] = ()) -> float:
    """Evaluate the policy on the test tasks, leave a complete run folder, and return its success rate.

    A complete evaluation is not repeated. A killed one continues after its last complete pass, or after its last answer
    if the policy is served. An episode whose prompt exceeds the model's context is a failure. An episode without an
    answer of the endpoint is missing, and the next session tries it again. Raises ``UserError`` if episodes are
    missing, because the success rate is unknown then. ``overrides`` name the cell of a study, if there is one.
    """
    session = RunSession(config, overrides)
    folder = session.folder
    weights = None
    if config.run is not None and not folder.is_complete:
        trained = find_run(config.run, session.results)
        weights = trained.policy()
        if config.policy.lora.rank and (weights / ADAPTER_CONFIG).exists():
            _check_base(trained, config.policy)
    with session.locked(is_final=lambda done: not done.metadata["result"].get("missing")) as done:
        if done:
            return session.end(done, _words(done), " is complete")
        with closing(_player(config, folder, weights)) as player:
            test = task_set(config.env, "test", config.evaluation.tasks, session.results / "task_sets")
            folder.reopen()
            session.start()
            with session.tracked() as trackers:
                missing = _play(config, folder, player, test)
                result = _result(config, folder, missing)
                folder.complete(session.metadata({"test": test}, player.metadata) | {"result": result})
            summary = {"missing_episodes": sum(missing.values()), "overlong_episodes": result["overlong"]}
            session.finish(trackers, summary | ({} if missing else {"test_success": result["success"]}))
        if missing:
            count, episodes = sum(missing.values()), config.evaluation.tasks * config.evaluation.seeds
            raise UserError(
                f"run {folder.id}: {count} of {episodes} episodes are missing ({missing_reasons(missing)}), so there "
                f"is no success rate; the same command tries them again ({folder.path})"
            )
        made = session.read()
        return session.end(made, _words(made))


def _check_base(trained: StoredRun, policy: PolicyConfig) -> None:
    """Raise ``UserError`` if the weights below the adapters of a run are others today."""
    then, now = trained.metadata.get("weights", {}).get("digest"), policy.weights_digest
    digests_compare = trained.metadata["identity"]["method_versions"].get("policy") == policy.method_version
    if digests_compare and then and now and then != now:
        raise UserError(
            f"run={trained.id}: its adapters were trained on other weights than those of policy={policy.name} today "
            f"(digest {now[:12]}, in the run {then[:12]})"
        )


def _words(done: StoredRun) -> str:
    """Return the success rate in words, and how many episodes ended because a prompt was too long."""
    result = done.metadata["result"]
    overlong = result.get("overlong", 0)
    cut = f"; {overlong} failed because a prompt exceeded the model's context" if overlong else ""
    pass_at = ", ".join(f"pass@{k} {rate:.3f}" for k, rate in result.get("pass_at", {}).items() if k != "1")
    return f"success {result['success']:.3f} on held-out tasks{pass_at and f' ({pass_at})'}{cut}"


def _result(config: Config, folder: RunFolder, missing: Counter[str]) -> dict[str, Any]:
    """Return the result as in ``run.json``. Raises ``UserError`` if no episode had an answer."""
    rows = folder.rows("episodes")
    if not rows:
        raise UserError(f"run {folder.id}: no episode got an answer ({'; '.join(missing)})")
    if all(row.get("overlong") and not row["steps"] for row in rows):
        raise UserError(
            f"run {folder.id}: every first prompt exceeds the model's context (with "
            f"policy.max_response_length={config.policy.max_response_length}); choose a shorter response, or "
            "serve the model with a larger context"
        )
    success = None if missing else success_rate(rows, "test", 0)
    result = {"success": success, "updates": 0, "missing": dict(missing)}
    if not missing:
        result |= of_several(rows, config.evaluation.seeds)
    return result | {"overlong": sum(row.get("overlong", False) for row in rows)}


def _play(config: Config, folder: RunFolder, player: Player, test: TaskSet) -> Counter[str]:
    """Make the passes that are not complete. Return the number of missing episodes by reason."""
    missing = Counter[str]()
    passes: dict[int, list[dict[str, Any]]] = {}
    for row in folder.rows_of_passes():
        passes.setdefault(row["evaluation_seed"], []).append(row)
    whole = {seed: rows for seed, rows in passes.items() if len(rows) == len(test)}
    left = [seed for seed in range(config.evaluation.seeds) if seed not in whole]
    folder.rewrite("metrics", [])
    folder.rewrite("episodes", [row for rows in whole.values() for row in rows])
    folder.note_passes()
    if left and (estimate := player.estimate(test)):
        say(estimate)
    for seed in left:
        phases.report("evaluating", f"pass {seed + 1} of {config.evaluation.seeds}")
        made = player.play(test, seed)
        if seed == 0:
            folder.write_transcripts(made.transcripts)
        missing.update(made.missing)
        whole[seed] = [{"update": 0, **row} for row in made.rows]
        folder.append("episodes", *whole[seed])
        folder.note_passes()
    folder.rewrite("episodes", [row for seed in sorted(whole) for row in whole[seed]])
    return missing


def missing_reasons(missing: Mapping[str, int]) -> str:
    """Return the number of missing episodes by reason, in words."""
    return ", ".join(f"{count} x {reason}" for reason, count in missing.items())


def _player(config: Config, folder: RunFolder, weights: Path | None) -> Player:
    """Return the player of the episodes. Raises ``UserError`` if this machine lacks something for it."""
    if config.policy.served:
        from bepo.runs.served_player import ServedPlayer

        return ServedPlayer(config, folder)
    fitted = weights is None and config.policy.warm_start_settings is not None
    task_sets = task_sets_of(config) if fitted else {}  # what the warm start is fitted to
    setup = make_setup(config, folder, config.backend.resolve(), task_sets, weights)
    return EnginePlayer(config.backend.start(setup), config.evaluation.sampling, config.env.horizon)
