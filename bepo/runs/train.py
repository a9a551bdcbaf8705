"""A training run. Read ``train`` from top to bottom."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np
from jaxtyping import Float

from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError, say
from bepo.core.seeds import derive_seed
from bepo.credit import Credit, Estimator
from bepo.credit._audit import audit
from bepo.envs import Split
from bepo.runs.collection import collect, keep_rollouts
from bepo.runs.config import Config, identity_of
from bepo.runs.continuation import continue_shorter_run, refuse_other_start, write_start
from bepo.runs.ending import cell_and_success, next_command
from bepo.runs.evaluations import Evaluations
from bepo.runs.health import alarms
from bepo.runs.metrics import OF_ADVANTAGES, credit_metrics, prefixed, rollout_metrics
from bepo.runs.progress import ProgressBar, interrupts
from bepo.runs.session import RunSession, make_setup, task_sets_of
from bepo.runs.wandb_labels import summary_of
from bepo.store.run_files import read_run
from bepo.store.runs import RunFolder
from bepo.training.backends import Engine
from bepo.training.starting_policy import planned_start

_MUST_BE_FINITE = ("policy_loss", "grad_norm", "value_loss", "critic_grad_norm", "kl", "entropy")


def train(
    config: Config, overrides: Sequence[str] = (), *, varying: Sequence[str] = (), hides_test: bool = False
) -> float:
    """Train as ``config`` says, leave a complete run folder, and return the final test success rate.

    A complete run is not repeated. A killed run continues from its checkpoint and gives the same numbers. ``overrides``
    name the cell of a study, if there is one, and ``varying`` are those by which it differs from the other cells.
    ``hides_test``: whether the run is a trial of a search. It prints validation success, because test tasks must not
    be used to choose settings.
    """
    session = RunSession(config, overrides, varying)
    folder, device = session.folder, config.backend.resolve()  # what is missing is said before anything is written
    if not folder.is_complete:
        config.policy.check_weights()
    split: Split = "validation" if hides_test or "objectives" in config.study else "test"
    with session.locked() as done:
        if done:
            return session.end(done, cell_and_success(session, done, split), " is complete")
        task_sets = task_sets_of(config)
        setup = make_setup(config, folder, device, task_sets)
        start = planned_start(setup)
        if not folder.checkpoints():
            continue_shorter_run(folder, identity_of(config), start)
        refuse_other_start(folder, start)  # before a session is noted and a warm start is fitted
        session.start()
        last, checkpoint = folder.rewind() or (0, None)
        with (
            closing(config.backend.start(setup)) as engine,
            session.tracked(earlier=folder.rows("metrics")) as trackers,
        ):
            cpu = engine.cpu_seconds()
            evaluations = Evaluations(config, setup, folder, engine)
            if checkpoint:
                refuse_other_start(folder, engine.metadata)
                engine.load(checkpoint)
            else:
                evaluations.first()
                _save_checkpoint(config, folder, engine, 0)
            with interrupts("this update") as asked_to_stop, ProgressBar(config, last) as bar:
                for update in range(last + 1, config.updates + 1):
                    watch = Stopwatch(engine)
                    rollouts, sampled = collect(config, engine, task_sets["train"], update)
                    watch.lap("rollout")
                    rollouts = engine.prepare_batch(rollouts)  # with a critic's values
                    watch.lap("values")
                    credit, advantage = _credit_of_tokens(config.credit, rollouts.batch)
                    watch.lap("credit")
                    advice = f"check the estimator {config.credit.name}"
                    _refuse_non_finite(folder, update, _sizes(credit, advantage), advice)
                    stats = engine.update(rollouts, advantage, derive_seed(config.seed, update), credit.token_return)
                    _refuse_non_finite(folder, update, _losses(stats), "try a lower training.learning_rate")
                    engine.release(rollouts)
                    watch.lap("update")
                    keep_rollouts(folder.path, rollouts.batch, update, config.updates, config.save_rollouts)
                    row = _row(config, engine, update, sampled, rollouts.batch, credit, advantage, stats)
                    row |= watch.seconds(rollouts.seconds)
                    if evaluations.is_due(update):
                        watch = Stopwatch(engine)
                        row |= evaluations.while_training(update)
                        watch.lap("evaluation")
                        row |= watch.seconds()
                    folder.append("metrics", row)
                    trackers.log(row)
                    if update % config.checkpoint_every == 0:
                        _save_checkpoint(config, folder, engine, update)
                    bar.advance(row)
                    if asked_to_stop:
                        _save_checkpoint(config, folder, engine, update)
                        raise KeyboardInterrupt
            _save_checkpoint(config, folder, engine, config.updates)
            success = evaluations.last(config.updates)
            with interrupts("the end of this run") as asked_to_stop:
                metadata = session.metadata(task_sets, engine.metadata)
                metadata["method"] = metadata_of_method(config.credit)
                metadata["result"] = {"success": success, "updates": config.updates}
                metadata["alarms"] = alarms(folder.rows("metrics"), config.health)
                metadata["cpu_seconds_last_session"] = round(engine.cpu_seconds() - cpu, 1)
                folder.keep_policy(engine.policy_in(dict(folder.checkpoints())[config.updates]))
                folder.complete(metadata)
                folder.drop_checkpoints(keep=int(config.keep == "resume"))
                trackers.log_transcripts(config.updates, read_run(folder.path).transcripts())
                session.finish(trackers, summary_of(folder, config.updates, success))
        for alarm in metadata["alarms"]:
            say(f"run {folder.id}: ALARM {alarm} ({next_command('diagnose', config)})")
        made = session.read()
        session.end(made, cell_and_success(session, made, split))
    if asked_to_stop:  # Ctrl-C came too late to stop the run
        raise KeyboardInterrupt
    return success


class Stopwatch:
    """Seconds of successive stages: wall-clock, and CPU over all processes of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stages: dict[str, tuple[float, float]] = {}
        self._last = time.perf_counter(), engine.cpu_seconds()

    def lap(self, stage: str) -> None:
        """Record the seconds of the stage that ends now."""
        (wall, cpu), self._last = self._last, (time.perf_counter(), self._engine.cpu_seconds())
        self._stages[stage] = self._last[0] - wall, max(self._last[1] - cpu, 0.0)

    def seconds(self, of_engine: Mapping[str, float] = {}) -> dict[str, float]:
        """Return the seconds of all stages as in ``metrics.jsonl``, with those of the engine's own stages."""
        wall = {stage: wall for stage, (wall, _) in self._stages.items() if stage != "values"} | {**of_engine}
        return prefixed("time", wall) | prefixed("cpu", {stage: cpu for stage, (_, cpu) in self._stages.items()})


def _credit_of_tokens(estimator: Estimator, batch: RolloutBatch) -> tuple[Credit, Float[np.ndarray, " R"]]:
    """Return the checked credit of a batch, with the metrics of the audit, and the advantage of each response token."""
    credit = estimator.credit_of(batch)
    advantage = credit.of_tokens(batch.language.response_length)
    audited = audit(batch, credit)
    estimator.refuse_names(credit.metrics, {*audited, *OF_ADVANTAGES})
    credit.metrics = audited | credit.metrics
    return credit, advantage


def _sizes(credit: Credit, advantage: Float[np.ndarray, " R"]) -> dict[str, float]:
    """Return the largest advantage and the largest target of a critic; NaN if there is one."""
    sizes = {"credit/advantage": np.append(credit.advantage, advantage)}
    if credit.token_return is not None:
        sizes["credit/token_return"] = credit.token_return
    return {name: float(np.abs(array).max()) for name, array in sizes.items()}


def _losses(stats: Mapping[str, float]) -> dict[str, float]:
    return {f"train/{name}": stats[name] for name in _MUST_BE_FINITE if name in stats}


def _refuse_non_finite(folder: RunFolder, update: int, values: Mapping[str, float], advice: str) -> None:
    """Raise ``UserError`` for a number that is not finite, before anything of this update is saved."""
    for name, value in values.items():
        if not math.isfinite(value):
            raise UserError(
                f"run {folder.id}: stopped at update {update}, {name} became {value}; {advice}; the last checkpoint is "
                f"kept in {folder.path}"
            )


def _row(
    config: Config,
    engine: Engine,
    update: int,
    sampled: RolloutBatch,
    batch: RolloutBatch,
    credit: Credit,
    advantage: Float[np.ndarray, " R"],
    stats: Mapping[str, float],
) -> dict[str, Any]:
    """Return the row of ``metrics.jsonl``, without seconds and evaluations.

    ``sampled`` are all rollouts of the update, ``batch`` those that it trained on.
    """
    of_rollouts = rollout_metrics(sampled, config.policy.max_response_length, engine.end_ids, config.env.horizon)
    config.loss.refuse_names(stats, {name.removeprefix("train/") for name in of_rollouts})
    return {
        "update": update,
        **of_rollouts,
        **({"train/kept_groups": batch.n_groups} if config.rollout.mixed_groups else {}),
        **credit_metrics(credit),
        "credit/token_advantage_mean": float(advantage.mean()),
        **prefixed("train", stats),
    }


def _save_checkpoint(config: Config, folder: RunFolder, engine: Engine, update: int) -> None:
    """Save a checkpoint, unless the update has one already."""
    if update not in dict(folder.checkpoints()):
        with folder.new_checkpoint(update, config.checkpoints) as path:
            engine.save(path)
            write_start(path, engine.metadata)


def metadata_of_method(credit: Estimator) -> dict[str, Any]:
    """Return the facts that tables state about an estimator, so that a run keeps it with its numbers."""
    return {"citation": credit.citation, "reconstruction": credit.reconstruction, **credit.traits}
