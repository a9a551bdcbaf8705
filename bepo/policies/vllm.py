"""A checkpoint that vLLM serves for the time of an evaluation: ``policy=vllm policy.path=...``."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal
from urllib.error import URLError
from urllib.request import urlopen

from bepo.core.errors import GPU_ENVIRONMENT, Missing, UserError
from bepo.core.phases import report
from bepo.core.settings import setting
from bepo.policies import register
from bepo.policies.served import ServedPolicy

LOG = "vllm.txt"
_PR_SET_PDEATHSIG = 1  # of linux/prctl.h
_POLL, _PATIENCE = 0.2, 30.0  # seconds between two looks at the server; until it is killed that was asked to end


@register
@dataclass
class Vllm(ServedPolicy):
    """Starts ``vllm serve`` on a free port of this machine, and stops it. Its weights are known by their path."""

    name: Literal["vllm"] = "vllm"
    path: str = "Qwen/Qwen2.5-1.5B-Instruct"
    """A folder with a checkpoint that vLLM can load, or a name on the model hub."""
    seeded: bool = True
    """Send each request a seed of its own, derived from the evaluation seed."""
    arguments: list[str] = setting(factory=list, identity=False)
    """Further arguments of ``vllm serve``, ``["--tensor-parallel-size=2"]``: where and how fast it runs."""
    command: str = setting("vllm", identity=False)
    """The program; by its path where it is in another environment."""
    patience: float = setting(1200.0, above=0, identity=False)
    """Seconds that the server may take to start."""
    concurrency: int = setting(64, at_least=1, identity=False)
    """So many requests are under way at a time."""

    method_version: ClassVar[int] = 1

    @property
    def weights(self) -> str:
        """The folder of the weights, or their name on the model hub."""
        return self.path

    @property
    def served_model(self) -> str:
        """The model as requests name it: its path."""
        return self.path

    def missing(self) -> Missing | None:
        """Return that the program is not there."""
        if shutil.which(self.command):
            return None
        return Missing(f"policy=vllm: there is no program {self.command}", GPU_ENVIRONMENT)

    @contextmanager
    def endpoint(self, folder: Path) -> Iterator[str]:
        """Start the server, yield its base URL, and stop it. What it prints is in ``vllm.txt`` of the run's folder."""
        if missing := self.missing():
            raise missing
        port, log = _free_port(), folder / LOG
        place = ["--host", "127.0.0.1", "--port", str(port), "--max-model-len", str(self._length)]
        command = [self.command, "serve", self.path, *place, *self.arguments]
        with log.open("a") as file:
            server = subprocess.Popen(
                command,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_end_with(os.getpid()),
            )
        try:
            self._wait(server, f"http://127.0.0.1:{port}/health", log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            _stop(server)

    @property
    def _length(self) -> int:
        return self.max_prompt_length + self.max_response_length

    def _wait(self, server: subprocess.Popen, health: str, log: Path) -> None:
        """Wait until the server is ready. Raises ``UserError`` if it ends, or takes too long."""
        begun = time.monotonic()
        deadline = begun + self.patience
        while time.monotonic() < deadline:
            if server.poll() is not None:
                raise UserError(f"vllm serve {self.path} ended with status {server.returncode}: see {log}")
            try:
                with urlopen(health, timeout=5):
                    return
            except (URLError, OSError):
                report("starting vllm serve", f"{time.monotonic() - begun:.0f} of at most {self.patience:g} seconds")
                time.sleep(_POLL)
        raise UserError(f"vllm serve {self.path} was not ready after {self.patience:g} seconds: see {log}")


def _end_with(parent: int) -> Callable[[], None]:
    """Return what a new process calls so that Linux ends it when its parent does, even by SIGKILL."""
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None  # loaded before the fork

    def ask_kernel() -> None:
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:  # it has ended already
                os.kill(os.getpid(), signal.SIGTERM)

    return ask_kernel


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _stop(server: subprocess.Popen) -> None:
    """End the server and its processes: first ask, then kill."""
    for number in (signal.SIGINT, signal.SIGKILL):
        try:
            _signal_group(server, number)
            server.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            continue
        break
    _signal_group(server, signal.SIGKILL)  # whatever the server has left behind


def _signal_group(server: subprocess.Popen, number: int) -> None:
    try:
        os.killpg(server.pid, number)
    except ProcessLookupError:
        return
