"""The processes of an engine, from the first stage to the end."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ray
import transfer_queue as tq

from bepo.core.deadline import call_with_timeout
from bepo.core.errors import UserError
from bepo.training.verl.lifetime import StageTimeout, Watchdog, end_processes, marked_processes, shared_memory
from bepo.training.verl.processes import describe_failure
from bepo.training.verl.quiet import Quiet

_SECONDS_TO_END = 20.0  # timeout for a normal end of TransferQueue, and of Ray


class Session:
    """All processes of one engine, identified by a mark in their environment.

    Until ``close``, a watchdog ends the processes if the program is killed.
    """

    def __init__(self, folder: Path, quiet: Quiet, stage_timeout: float) -> None:
        """``folder`` is the run's folder; ``stage_timeout`` is the timeout of a stage in seconds."""
        self.mark = uuid.uuid4().hex
        self.ray_logs: Path | None = None  # set when Ray has started; each run on a machine has its own
        self._folder, self._quiet, self._closed = folder, quiet, False
        self._timeout, self._watchdog = StageTimeout(stage_timeout, self.mark), Watchdog(self.mark)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Run one of verl's stages with its output in the log. A stage that exceeds its timeout ends the program.

        Raises ``UserError`` with one line, the stage and the cause, for every failure.
        """
        self._timeout.begin(name)
        try:
            with self._quiet:
                yield
        except (UserError, KeyboardInterrupt):
            raise
        except Exception as error:
            self._quiet.note(error)
            raise UserError(f"backend=verl, stage {name}: {describe_failure(error)}; {self.logs}") from error
        finally:
            self._timeout.end()

    @property
    def logs(self) -> str:
        """The paths of the logs, for an error message."""
        return f"see {self._folder / 'verl.log'}{f' and {self.ray_logs}' if self.ray_logs else ''}"

    def close(self) -> None:
        """Ask TransferQueue and Ray to end, then end the remaining processes."""
        if self._closed:
            return
        self._closed = True
        self._timeout.stop()
        memory = shared_memory(marked_processes(self.mark))
        with self._quiet:
            for end in (tq.close, ray.shutdown):
                try:
                    call_with_timeout(_SECONDS_TO_END, end)
                except (Exception, SystemExit) as error:
                    print(f"{end.__name__}: {error!r}")
        end_processes(self.mark, memory)
        self._watchdog.stop()
