"""A run on a machine of a Ray cluster: an actor that starts the run in a process of its own and can stop it.

Nothing here imports Ray: ``bepo.sweep.ray_pool`` makes the actor.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import socket
from multiprocessing.process import BaseProcess
from pathlib import Path

from bepo.core.plugins import import_plugins
from bepo.sweep.pool import train_in_process


class RemoteRun:
    """One run on this machine. Ray calls ``stop`` in another thread than ``work``."""

    def __init__(self) -> None:
        self._process: BaseProcess | None = None
        self._stop_requests = 0

    def work(self, payload: bytes, log: Path, folder: str) -> int:
        """Train the run and return the exit code of its process, as documented in ``bepo.sweep.pool``.

        ``payload`` are the pickled arguments of ``train_in_process``, ``folder`` is the sweep's working folder. Raises
        ``OSError`` if this machine does not have that folder, or not the results folder.
        """
        os.chdir(folder)
        if not log.parent.is_dir():
            raise OSError(f"{log.parent.absolute()} is not on machine {socket.gethostname()}: results must be shared")
        self._process = multiprocessing.get_context("spawn").Process(target=_train, args=(payload,))
        self._process.start()
        for _ in range(self._stop_requests):  # made before the start
            self._interrupt()
        self._process.join()
        assert self._process.exitcode is not None
        return self._process.exitcode

    def stop(self) -> None:
        """Stop the run after its current update; the second time at once."""
        self._stop_requests += 1
        self._interrupt()

    def _interrupt(self) -> None:
        if self._process is not None and self._process.pid is not None and self._process.is_alive():
            os.kill(self._process.pid, signal.SIGINT)


def _train(payload: bytes) -> None:
    os.environ.pop("RAY_ADDRESS", None)  # backend=verl starts a Ray of its own, on the devices of this run
    import_plugins()  # before the classes of the config are unpickled
    train_in_process(*pickle.loads(payload))
