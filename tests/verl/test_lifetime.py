"""If a program with an engine ends in any way, its processes end too."""

import subprocess
import sys
import time
import uuid
from pathlib import Path

from bepo.training.verl.lifetime import end_processes, marked_processes, unused_memory

# An engine in small: a Ray of its own, and, as vLLM's, a process under a worker, with shared memory, that nobody ends.
CHILD = """
import time
from multiprocessing import resource_tracker, shared_memory
memory = shared_memory.SharedMemory(create=True, size=1000)
resource_tracker.unregister(memory._name, "shared_memory")
print(memory.name, flush=True)
time.sleep(1000)
"""
PROGRAM = """
import sys, time
import ray
from omegaconf import OmegaConf
from bepo.training.backends.verl import Verl
from bepo.training.verl.lifetime import StageTimeout, Watchdog
from bepo.training.verl.devices import find_device
find_device("cpu").prepare()
from bepo.training.verl.processes import start_ray
from bepo.training.verl.settings import _DEFAULTS

mark, seconds, child = sys.argv[1:]
watchdog, timeout = Watchdog(mark), StageTimeout(float(seconds), mark)
settings = Verl(device="cpu")
start_ray(OmegaConf.merge(OmegaConf.load(_DEFAULTS), find_device("cpu").verl_settings(settings)), settings, "cpu", mark)

@ray.remote(num_cpus=0.1)
class Worker:
    def start(self, child):
        import subprocess
        self.child = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE, start_new_session=True)
        return self.child.stdout.readline().decode()

worker = Worker.remote()
print(ray.get(worker.start.remote(child)), flush=True)
timeout.begin("rollout")
time.sleep(1000)
"""


class Program:
    def __init__(self, timeout: float = 1000) -> None:
        self.mark = uuid.uuid4().hex
        command = [sys.executable, "-c", PROGRAM, self.mark, str(timeout), CHILD]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self.memory = Path("/dev/shm") / self.process.stdout.readline().strip()

    def left(self, seconds: float = 30) -> list[str]:
        """Return the processes and the memory that are left some seconds after the end of the program."""
        self.process.wait(timeout=30)
        end = time.monotonic() + seconds
        while left := self._remains():
            if time.monotonic() > end:
                break
            time.sleep(0.2)
        end_processes(self.mark)
        return left

    def _remains(self) -> list[str]:
        processes = [str(p) for p in marked_processes(self.mark)]
        return processes + ([self.memory.name] if self.memory.exists() else [])


def test_a_program_that_is_killed_leaves_nothing_behind():
    program = Program()
    names = {p.name() for p in marked_processes(program.mark)}
    assert {"raylet", "gcs_server"} <= names and program.memory.exists()
    program.process.kill()
    assert program.left() == []


def test_a_stage_that_hangs_ends_the_program_in_one_line():
    program = Program(timeout=1)
    assert program.left() == []
    assert program.process.returncode == 2
    (message,) = [line for line in program.process.stderr if "error" in line]
    assert all(word in message for word in ("error: ", "stage rollout", "1.0 s", "backend.patience"))


def test_only_memory_that_nobody_uses_is_unused():
    began = time.time()
    user, gone = (
        subprocess.Popen(
            [sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True, start_new_session=True, encoding="utf-8"
        )
        for _ in range(2)
    )
    used, left = (Path("/dev/shm") / process.stdout.readline().strip() for process in (user, gone))
    gone.kill()
    gone.wait()
    try:
        found = unused_memory(began)
        assert left in found and used not in found
        assert left not in unused_memory(time.time() + 1)
    finally:
        user.kill()
        for path in (used, left):
            path.unlink()
