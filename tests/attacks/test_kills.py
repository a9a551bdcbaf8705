"""A run, a sweep and an Optuna study killed at every file operation and at random moments end as if nothing had been.

Several minutes: `make attack`, before a release.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from bepo.store.run_files import read_run
from tests.command import SMALLEST, Command, run, without_seconds

SHORT = [*(s for s in SMALLEST if not s.startswith(("policy.warm_start", "updates", "checkpoint_every")))]
SHORT += ["updates=5", "checkpoint_every=2", "evaluation.every=2", "policy.warm_start.episodes=8"]
SHORT += ["policy.warm_start.max_steps=2", "policy.warm_start.check_every=1"]
SWEEP = ["main_sokoban", *SHORT, "model=small", "credit=grpo,gated_bepo", "seed=0,1", "--jobs", "2"]
TUNING = ["tune_gated_bepo", *SHORT, "env=sokoban", "hydra.sweeper.n_trials=3", "study.seeds=[0,1]", "--jobs", "2"]


def content(run_folder: Path) -> dict:
    """All that a complete run says, but for how long it took and in how many sessions."""
    run = read_run(run_folder)
    kept = {update: run.read(name) for update, name in run.rollouts().items()}
    rows = {stream: without_seconds(run_folder, stream) for stream in ("metrics", "episodes")}
    return {"result": run.metadata["result"], "transcripts": run.transcripts(), "rollouts": kept, **rows}


def contents(results: Path) -> dict[str, dict]:
    return {path.name: content(path) for path in results.glob("runs/*")}


def left_behind(results: Path) -> list[Path]:
    """What a kill may leave, and the next start should remove: half-written files, checkpoints, a second W&B folder."""
    left = [p for p in results.rglob("*") if ".part" in p.name or p.name.startswith("checkpoint-")]
    return left + [f for path in results.glob("runs/*") for f in sorted(path.glob("wandb/offline-run-*"))[1:]]


def a_while_later(results: Path) -> None:
    """Make half-written files old: of young ones in shared folders another process may be the writer."""
    for part in results.rglob("*.part"):
        os.utime(part, (0, 0))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> tuple[dict[str, dict], int]:
    """The content of the run, and the number of its file operations."""
    results = tmp_path_factory.mktemp("undisturbed") / "results"
    results.mkdir()
    assert killed_at(0, results) == 0
    return contents(results), int(Path(f"{results}.operations").read_text(encoding="utf-8"))


def killed_at(number: int, results: Path, *overrides: str) -> int | None:
    arguments = "tests.attacks.at_operation", str(number), str(results), "bepo.train", *SHORT, f"results={results}"
    command = Command(*arguments, *overrides)
    command.communicate()
    return command.returncode


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(8))
def test_killed_at_every_file_operation(undisturbed, tmp_path, part):
    """Each in a folder of its own: the run is killed before the operation, and the same command ends it."""
    whole, operations = undisturbed
    assert operations > 90
    for number in range(1 + part, operations + 1, 8):
        results = tmp_path / str(number)
        results.mkdir()
        assert killed_at(number, results) == -signal.SIGKILL, number
        a_while_later(results)
        code, _, err = run(*SHORT, f"results={results}")
        assert code == 0, (number, err)
        assert contents(results) == whole and not left_behind(results), number


@pytest.mark.timeout(3600)
def test_a_storm_of_kills_on_a_run(undisturbed, tmp_path):
    """Forty kills, each after a random time, with W&B; a kill that comes too late begins the next run."""
    whole, _ = undisturbed
    random_times, kills = random.Random(0), 0
    while kills < 40:
        results = tmp_path / str(kills)
        while True:
            command = Command("bepo.train", *SHORT, "tracking.mode=offline", f"results={results}")
            time.sleep(random_times.uniform(0.2, 4))
            if command.returncode is not None:
                break
            command.send_signal(signal.SIGKILL)
            command.communicate()
            a_while_later(results)
            kills += 1
        out, err = command.communicate()
        assert command.returncode == 0, out + err
        assert contents(results) == whole and not left_behind(results)


def storm(kills: int, results: Path, *arguments: str) -> str:
    """Start ``bepo.sweep`` again and again and kill its process group after a random time; returns the last output."""
    random_times, command = random.Random(1), [sys.executable, "-m", "bepo.sweep", *arguments, f"results={results}"]
    for _ in range(kills):
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(random_times.uniform(3, 15))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        a_while_later(results)
    return subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8").stdout


@pytest.mark.timeout(3600)
def test_a_storm_of_kills_on_a_sweep(tmp_path):
    assert "4 of 4 runs complete" in storm(0, tmp_path / "whole", *SWEEP)
    assert "4 of 4 runs complete" in storm(30, tmp_path / "killed", *SWEEP)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    assert not left_behind(tmp_path / "killed")
    cells = list((tmp_path / "killed").glob("studies/main_sokoban/smoke/*.json"))
    assert len(cells) == 4


@pytest.mark.timeout(3600)
def test_a_storm_of_kills_on_an_optuna_study(tmp_path):
    out = storm(30, tmp_path, *TUNING)
    study = optuna.load_study(study_name="tune_gated_bepo.sokoban.smoke", storage=f"sqlite:///{tmp_path}/studies.db")
    ended = [trial for trial in study.trials if trial.state == TrialState.COMPLETE]
    assert len(ended) == 3 and "3 of 3 trials" in out, out
    assert not [trial for trial in study.trials if trial.state == TrialState.RUNNING]
    for trial in ended:
        runs = [read_run(tmp_path / "runs" / identifier) for identifier in trial.user_attrs["runs"]]
        assert [run.config["seed"] for run in runs] == [0, 1]
        assert all([row["update"] for row in run.metrics()] == [1, 2, 3, 4, 5] for run in runs)


@pytest.mark.timeout(600)
def test_a_killed_joblib_sweep_leaves_no_process_and_no_shared_memory(tmp_path):
    """Hydra's own multirun: its parent is killed while two workers train."""
    shared_memory = set(os.listdir("/dev/shm"))
    mark = f"results={tmp_path}"
    command = [sys.executable, "-m", "bepo.train", "-m", *SMALLEST, "updates=500", "seed=0,1", "credit=grpo", mark]
    command.append("hydra/launcher=joblib")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 240
    while sum(p.read_text(encoding="utf-8").count("\n") > 1 for p in tmp_path.glob("runs/*/metrics.jsonl")) < 2:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.2)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    for _ in range(300):
        if not in_session(process.pid) and set(os.listdir("/dev/shm")) <= shared_memory:
            return
        time.sleep(0.1)
    raise AssertionError(f"left: {in_session(process.pid)}, {set(os.listdir('/dev/shm')) - shared_memory}")


def in_session(session: int) -> list[str]:
    """The commands of living processes of a session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8").rsplit(")", 1)[1].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append((stat.parent / "cmdline").read_text(encoding="utf-8").replace("\0", " "))
        except OSError:
            continue
    return found
