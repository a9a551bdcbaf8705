"""The life of a training run. Read ``Training.make`` from top to bottom."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from bepo.core.errors import say
from bepo.credit import Estimator
from bepo.envs import Split
from bepo.runs.config import Config, identity_of
from bepo.runs.continuation import continue_shorter_run
from bepo.runs.ending import cell_and_success, next_command
from bepo.runs.evaluations import Evaluations
from bepo.runs.health import alarms
from bepo.runs.life import Life, make_setup, task_sets_of
from bepo.runs.metrics import prefixed
from bepo.runs.progress import ProgressBar, interrupts
from bepo.runs.updates import Stopwatch, Updates
from bepo.runs.wandb_labels import labels_of, summary_of
from bepo.store.cells import files_of_run
from bepo.store.run_files import StoredRun, read_run
from bepo.store.tracking import Trackers
from bepo.training.backends import Engine, Setup


def run(
    config: Config, overrides: Sequence[str] = (), *, varying: Sequence[str] = (), hides_test: bool = False
) -> float:
    """Train as ``config`` says, leave a complete run folder, and return the final test success rate.

    A complete run is not repeated. A killed run continues from its checkpoint and gives the same numbers. ``overrides``
    name the cell of a study, if there is one, and ``varying`` are those by which it differs from the other cells.
    ``hides_test``: whether the run is a trial of a search. It prints validation success, because test tasks must not
    be used to choose settings.
    """
    training = Training(config, overrides, varying)
    training.split = "validation" if hides_test or "objectives" in config.study else "test"
    success = training.live()
    if training.interrupted:  # Ctrl-C came too late to stop the run
        raise KeyboardInterrupt
    return success


class Training(Life):
    """A training run."""

    split: Split = "test"  # of the success that the last line prints
    device = ""
    interrupted = False  # whether Ctrl-C came while the end of the run was written

    def words(self, done: StoredRun) -> str:
        """Return the cell, and success before and after training."""
        return cell_and_success(self.config, done, self.split, self.overrides, self.varying)

    def check(self) -> None:
        """Find the device and the weights. Raises ``UserError`` if this machine lacks something for them."""
        self.device = self.config.backend.resolve()
        if not self.folder.is_complete:
            self.config.policy.check_weights()

    def make(self) -> None:
        """Make the remaining updates, and complete the folder."""
        if not self.folder.checkpoints():
            continue_shorter_run(self.folder, identity_of(self.config))
        self.start_session()
        setup = make_setup(self.config, self.folder, self.device, task_sets_of(self.config))
        engine = self.config.backend.start(setup)
        try:
            found = self._train(setup, engine)
        finally:
            engine.close()
        for alarm in found:
            say(f"run {self.folder.id}: ALARM {alarm} ({next_command('diagnose', self.config)})")

    def _train(self, setup: Setup, engine: Engine) -> list[str]:
        """Make the remaining updates, and complete the folder. Return the alarms of the health checks."""
        config, folder = self.config, self.folder
        began = time.perf_counter(), engine.cpu_seconds()
        updates = Updates(config, folder, engine, setup.task_sets["train"])
        evaluations = Evaluations(config, setup, folder, engine)
        saved = folder.rewind()
        done = saved[0] if saved else 0
        if saved:
            engine.load(saved[1])
        with self.tracked(earlier=folder.rows("metrics")) as tracker:
            if not saved:
                evaluations.first()
                self._checkpoint(engine, 0)
            with interrupts("this update") as interrupted, ProgressBar(config, done) as bar:
                for update in range(done + 1, config.updates + 1):
                    row = updates.make(update)
                    if evaluations.is_due(update):
                        watch = Stopwatch(engine)
                        row |= evaluations.while_training(update)
                        watch.lap("evaluation")
                        row |= prefixed("time", watch.wall) | prefixed("cpu", watch.cpu)
                    folder.append("metrics", row)
                    tracker.log(row)
                    if update % config.checkpoint_every == 0:
                        self._checkpoint(engine, update)
                    bar.advance(row)
                    if interrupted:
                        self._checkpoint(engine, update)
                        raise KeyboardInterrupt
            self._checkpoint(engine, config.updates)
            success = evaluations.last(config.updates)
            with interrupts("the end of this run") as interrupted:
                found = self._complete(setup, engine, began, success, tracker)
            self.interrupted = bool(interrupted)
        return found

    def _checkpoint(self, engine: Engine, update: int) -> None:
        """Save a checkpoint, unless the update has one already."""
        if any(saved == update for saved, _ in self.folder.checkpoints()):
            return
        with self.folder.new_checkpoint(update, self.config.checkpoints) as path:
            engine.save(path)

    def _complete(
        self, setup: Setup, engine: Engine, began: tuple[float, float], success: float, tracker: Trackers
    ) -> list[str]:
        """Complete the folder, and return the alarms. ``began``: wall-clock and CPU seconds when the session began."""
        config, folder, (wall, cpu) = self.config, self.folder, began
        metadata = self.metadata(setup.task_sets, engine.metadata, wall)
        metadata["method"] = metadata_of_method(config.credit)
        metadata["result"] = {"success": success, "updates": config.updates}
        metadata["alarms"] = alarms(folder.rows("metrics"), config.health)
        metadata["cpu_seconds_last_session"] = round(engine.cpu_seconds() - cpu, 1)
        folder.keep_policy(engine.policy_in(dict(folder.checkpoints())[config.updates]))
        folder.complete(metadata)
        folder.drop_checkpoints(keep=int(config.keep == "resume"))
        tracker.log_transcripts(config.updates, read_run(folder.path).transcripts())
        summary, files = summary_of(folder, config.updates, success), files_of_run(self.results, folder.id)
        tracker.finish(summary, files, self.results, labels_of(config, folder, self.overrides))
        return metadata["alarms"]


def metadata_of_method(credit: Estimator) -> dict[str, Any]:
    """Return what tables say about an estimator, so that a run keeps it with its numbers."""
    return {"citation": credit.citation, "reconstruction": credit.reconstruction, **credit.traits}
