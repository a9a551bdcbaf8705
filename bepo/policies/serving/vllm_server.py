"""Starts ``vllm serve``, waits for it, stops it, and finds the cause in one line if it ends early."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from bepo.core.errors import UserError
from bepo.core.phases import report

LOG = "vllm.txt"
_PR_SET_PDEATHSIG = 1  # of linux/prctl.h
_POLL, _PATIENCE = 0.2, 30.0  # seconds between two checks of the server; between asking it to end and killing it
_PROCESS = re.compile(r"^(\([\w ]+ pid=\d+\) )?([A-Z]+ [\d-]+ [\d:]+ \[[\w.]+:\d+\] ?)?")  # prefix of a line of the log
_REASON = re.compile(r"[\w.]*(Error|Exception): \S|[\w ]+: error: \S")


@contextmanager
def vllm_server(command: Sequence[str], folder: Path, timeout: float) -> Iterator[str]:
    """Run a server on a free port during a ``with`` block, and yield the URL of its API.

    Its output is in ``vllm.txt`` of ``folder``. Raises ``UserError`` if it ends, or is not ready after ``timeout``
    seconds.
    """
    port, log = _free_port(), folder / LOG
    before = log.stat().st_size if log.exists() else 0
    with log.open("a", encoding="utf-8") as file:
        server = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_end_with(os.getpid()),
        )
    try:
        if problem := _wait(server, f"http://127.0.0.1:{port}/health", timeout):
            raise UserError(f"vllm {' '.join(command[1:3])} {problem}{_reason(log, before)}: see {log}")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        _stop(server)


def _wait(server: subprocess.Popen, health: str, timeout: float) -> str:
    """Wait until the server is ready; return the problem if it fails, else an empty text."""
    begun, opener = time.monotonic(), build_opener(ProxyHandler({}))  # no proxy: it would look on its own machine
    while (waited := time.monotonic() - begun) < timeout:
        if server.poll() is not None:
            return f"ended with status {server.returncode}"
        try:
            with opener.open(health, timeout=5):
                return ""
        except (URLError, OSError):
            report("starting vllm serve", f"{waited:.0f} of at most {timeout:g} seconds")
            time.sleep(_POLL)
    return f"was not ready after {timeout:g} seconds"


def _reason(log: Path, begin: int) -> str:
    """Return the first error in a log after byte ``begin``, in brackets; empty without an error.

    The first error is the cause; later ones only say that another process has failed.
    """
    with log.open(encoding="utf-8", errors="replace") as file:
        file.seek(begin)
        lines = [_PROCESS.sub("", line.rstrip("\n")) for line in file]
    for line, following in zip(lines, [*lines[1:], ""]):
        if _REASON.match(line):
            more = f" {following.strip()}" if following.startswith("  ") else ""  # pydantic's message
            return f" ({(line + more).strip()[:400]})"
    return ""


def _end_with(parent: int) -> Callable[[], None]:
    """Return a function for a new process to call: Linux then ends it when its parent ends, even by SIGKILL."""
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None  # loaded before the fork

    def ask_kernel() -> None:
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:  # the parent has already ended
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
    _signal_group(server, signal.SIGKILL)  # processes that the server has left behind


def _signal_group(server: subprocess.Popen, number: int) -> None:
    try:
        os.killpg(server.pid, number)
    except ProcessLookupError:
        return
