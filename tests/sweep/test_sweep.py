"""Planning and running sets of studies, through the real command: sharing, resume, crashes, two at once."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from analysis.__main__ import main as analysis
from bepo.core.errors import UserError
from bepo.core.places import CONF, EXPERIMENTS
from bepo.runs.compose import register_configs
from bepo.runs.machine import cpu_model
from bepo.store import find
from bepo.store.run_files import read_run
from bepo.store.runs import RunFolder
from bepo.sweep import composition, studies
from bepo.sweep.__main__ import _jobs, main
from bepo.sweep.estimate import Throughput
from bepo.sweep.plan import plan_runs
from bepo.sweep.pool import Worker
from bepo.sweep.show import View, format_plan
from bepo.sweep.studies import compose_study
from tests.command import SMALLEST, Command, rows, with_rows, writers

pytestmark = pytest.mark.slow  # these train


register_configs()
TINY = (*SMALLEST, "updates=6", "checkpoint_every=1", "evaluation.every=3", "model=small")
GRID = ("main_sokoban", *TINY, "updates=15", "credit=grpo,gated_bepo", "seed=0,1")


def sweep(results: Path, *arguments: str) -> Command:
    return Command("bepo.sweep", *arguments, f"results={results}")


def sweep_with_a_server(results: Path, *arguments: str) -> subprocess.Popen:
    """The sweep as a user starts it: its workers are forked from a server that it starts."""
    command = [sys.executable, "-m", "bepo.sweep", *arguments, f"results={results}"]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ,
        encoding="utf-8",
        start_new_session=True,
    )


def finish(process: Command | subprocess.Popen) -> tuple[int, str]:
    out, err = process.communicate(timeout=240)
    assert process.returncode is not None
    return process.returncode, out + (err or "")


def wait_for(condition, process: Command | subprocess.Popen):
    """Return what ``condition`` returns, once that is true."""
    while not (result := condition()):
        ended = process.returncode if isinstance(process, Command) else process.poll()
        assert ended is None, finish(process)
        time.sleep(0.005)
    return result


@pytest.mark.long
def test_killed_and_shared_every_cell_is_done_once(tmp_path):
    """Two sweeps share four cells; one is killed with a run half done, and the other goes on with it."""
    first = sweep_with_a_server(tmp_path, *GRID, "--jobs", "1")
    (partial,) = wait_for(lambda: with_rows(tmp_path, 3), first)
    (worker,) = writers(partial.parent / ".lock")
    os.kill(worker, signal.SIGSTOP)  # it holds its run while the second sweep comes up and finds another
    second = sweep(tmp_path, *GRID, "--jobs", "1")
    wait_for(lambda: len(list(tmp_path.glob("runs/*/metrics.jsonl"))) > 1, second)
    assert "another process" not in (partial.parent / "log.txt").read_text(encoding="utf-8")  # no worker tried it
    first.kill()
    os.kill(worker, signal.SIGCONT)  # it sees that its sweep is dead
    first.communicate()
    code, out = finish(second)
    assert code == 0 and "4 of 4 runs complete" in out, out
    trained = [read_run(p.parent) for p in tmp_path.glob("runs/*/run.json")]
    assert len(trained) == 4
    for item in trained:
        assert [r["update"] for r in item.metrics()] == list(range(1, 16))
        resumed = item.path == partial.parent
        assert len(item.metadata["sessions"]) == (2 if resumed else 1)  # nothing was begun twice
    cells = [json.loads(p.read_text(encoding="utf-8")) for p in tmp_path.glob("studies/main_sokoban/smoke/*.json")]
    assert {c["run_id"] for c in cells} == {item.id for item in trained} and len(cells) == 4

    runs = plan_runs([compose_study(GRID[0], [*GRID[1:], f"results={tmp_path}"])])
    text = format_plan(runs, {r.id: r.progress() for r in runs}, Throughput(tmp_path), jobs=1, cells=True)
    assert "4 cells are 4 runs; 0 to do" in text
    assert text.count(" complete  ") == 5  # a row a cell, and the column's title


def test_a_crash_and_bad_input_are_contained_and_named(tmp_path):
    """Four cells: two cannot work, and the worker of one is killed by the system."""
    process = sweep(
        tmp_path, "main_sokoban", *TINY, "credit=grpo", "policy.max_prompt_length=3,128", "seed=0,1", "--jobs", "2"
    )

    def victim():
        return [pid for path in with_rows(tmp_path, 2) for pid in writers(path.parent / ".lock")]

    os.kill(wait_for(victim, process)[0], signal.SIGSEGV)
    code, out = finish(process)
    assert code == 1 and "1 of 4 runs complete" in out, out
    assert out.count("bad input") == 4 and "policy.max_prompt_length is 3" in out  # when it happens, and at the end
    assert "killed by SIGSEGV" in out
    assert all(Path(line.split("log ")[1].split(": ")[0]).exists() for line in out.splitlines() if "  log " in line)


def all_of(process: subprocess.Popen) -> list[int]:
    """Return the processes of the session that ``process`` leads: the sweep, the server and the workers."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(ProcessLookupError):
            found += [int(path.name)] if os.getsid(int(path.name)) == process.pid else []
    return found


@pytest.mark.parametrize("sent", ["Ctrl-C", pytest.param("scancel", marks=pytest.mark.long)])
def test_ctrl_c_leaves_checkpoints(tmp_path, sent):
    """Slurm's scancel sends SIGTERM to all processes of a job."""
    settings = ("main_sokoban", *TINY, "updates=200", "credit=grpo", "seed=0", "--jobs", "1")
    process = (sweep_with_a_server if sent == "scancel" else sweep)(tmp_path, *settings)
    wait_for(lambda: with_rows(tmp_path, 2), process)
    if isinstance(process, Command):
        process.send_signal(signal.SIGINT)
    else:
        for pid in all_of(process):
            os.kill(pid, signal.SIGTERM)
    code, out = finish(process)
    assert code == 130 and "the same command continues from here" in out, out
    reached = {int(path.name.split("-")[1]) for path in tmp_path.glob("runs/*/checkpoint-*")}
    assert max(reached) == len(rows(tmp_path, "metrics"))


def test_shared_runs_are_planned_once(tmp_path):
    planned = [compose_study(name, [f"results={tmp_path}", "env=sokoban"]) for name in ("gae_lambda", "step_weight")]
    runs = plan_runs(planned)
    assert [len(study.cells()) for study in planned] == [4, 4]
    assert len(runs) == 7  # lambda 0.8 and w 1.5 are one
    (shared,) = [r for r in runs if len(r.cells) > 1]
    assert shared.studies == ["gae_lambda", "step_weight"]
    assert {c.label for c in shared.cells} == {"credit.gae_lambda=0.8", "credit.step_weight=1.5"}


def test_an_override_replaces_a_sweep_and_seeds_compose_alike(tmp_path):
    settings = [f"results={tmp_path}", "model=small"]
    runs = plan_runs([compose_study("main_sokoban", [*settings, "seed=0,1,2,3,4", "credit=grpo"])])
    assert [r.config.seed for r in runs] == [0, 1, 2, 3, 4] and len({r.id for r in runs}) == 5
    (alone,) = plan_runs([compose_study("main_sokoban", [*settings, "seed=3", "credit=grpo"])])
    assert alone.id == runs[3].id and alone.config.seed == 3


def test_a_setting_beside_a_sweep_over_estimators_is_theirs_not_the_default_estimators(tmp_path):
    settings = [f"results={tmp_path}", "seed=0", "credit=grpo,rloo", "credit.singleton=zero"]
    runs = plan_runs([compose_study("main_sokoban", settings)])
    assert [run.config.credit.name for run in runs] == ["grpo", "rloo"]


def test_unknown_names_and_values_are_named():
    with pytest.raises(UserError, match=r"unknown study 'main_chess'.*main_sokoban"):
        compose_study("main_chess")
    wrong = {
        "tier=huge": "tier/huge.*laptop, paper, smoke",
        "modle=small": "Key 'modle' not in 'Config'. Did you mean: 'model'",
        "updates=many": "'many' of type 'str' could not be converted to Integer",
        "updates=-1": "updates=-1: must be at least 0",
        "credit.foo=7": "Key 'foo' not in 'GatedBEPO'; choices: name, gamma, gae_lambda",
        "credit.gae_lambda=7": "credit.gae_lambda=7.*: must be at least 0 and at most 1",
        "seed=[": "no viable alternative",
        "seed=interval(0,2)": "a grid cannot list the values of an interval",
    }
    for override, what in wrong.items():
        with pytest.raises(UserError, match=what) as error:
            plan_runs([compose_study("main_sokoban", ["credit=gated_bepo", override])])
        message = str(error.value)
        assert message.startswith("main_sokoban ") and override in message and "\n" not in message


def test_a_study_file_with_a_mistake_stops_no_other(tmp_path, monkeypatch, capsys):
    def write(name, original, *mistake):
        text = (
            (studies.EXPERIMENTS / f"{original}.yaml")
            .read_text(encoding="utf-8")
            .replace(f"name: {original}", f"name: {name}")
        )
        (tmp_path / f"{name}.yaml").write_text(text.replace(*mistake), encoding="utf-8")

    write("good", "gae_lambda", "", "")
    write("not_renamed", "gae_lambda", "name: not_renamed", "name: gae_lambda")
    write("no_yaml", "gae_lambda", "params:", "params")
    write("no_field", "gae_lambda", "credit.gae_lambda", "credit.gae_lamda")
    write("tune_aims", "tune_gated_bepo", "objectives:", "aims:")
    write("listed", "gae_lambda", "seed: 0", "seed: [0, 1]")
    write("unused", "gae_lambda", "question:", "extensoin: true\n  question:")
    monkeypatch.setattr(studies, "EXPERIMENTS", tmp_path)
    assert main(["good", "all", "--dry-run", f"results={tmp_path}"]) == 1
    out, err = capsys.readouterr()
    assert "good  credit.gae_lambda=0.8" in out and "4 cells are 4 runs" in out
    names = [line.removeprefix("error: ").split()[0].rstrip(":") for line in err.splitlines()]
    assert names == ["listed", "no_field", "no_yaml", "not_renamed", "tune_aims", "unused"]
    assert "hydra.sweeper.params.seed: " in err and "seed: 0,1" in err and "study.extensoin" in err
    assert "did you mean extension?" in err


def test_estimates_prefer_the_nearest_runs(tmp_path):
    def recorded(identifier, credit, seconds, model="small", cpu=None, sessions=1):
        """A run of 10 updates whose only session, but not its last of two, knows its CPU seconds."""
        folder = RunFolder(tmp_path, identifier)
        with folder.locked():
            names = {"env": {"name": "sokoban"}, "credit": {"name": credit}, "backend": {"name": "local"}}
            folder.start({"model": model, "tier": "laptop", **names}, {"started": "now"})
            folder.append(
                "metrics", *({"update": u, "cpu/update": seconds / 10, "time/update": 99.0} for u in range(10))
            )
            metadata = {"sessions": [{"machine": {"cpu": cpu or cpu_model()}}] * sessions, "result": {"updates": 10}}
            folder.complete(metadata | {"device": "cpu", "cpu_seconds_last_session": seconds / sessions})

    settings = [f"results={tmp_path}", "model=small,large", "updates=20", "seed=0", "tier=laptop"]
    runs = plan_runs([compose_study("main_sokoban", [*settings, "credit=grpo,gigpo,gated_bepo,ppo"])])

    def estimates(model):
        throughput = Throughput(tmp_path)
        found = {r.config.credit.name: throughput.estimate(r) for r in runs if r.config.model == model}
        assert all(e.gpus == 0 for e in found.values())
        return {name: (e.seconds, e.measured) for name, e in found.items()}

    before = estimates("small")
    assert not any(measured for _, measured in before.values())
    assert before["ppo"][0] > before["grpo"][0] == before["gigpo"][0] < estimates("large")["grpo"][0]
    recorded("a", "grpo", 10.0)
    recorded("b", "gigpo", 30.0)
    recorded("c", "gigpo", 50.0, sessions=2)
    recorded("d", "gigpo", 5000.0)
    (tmp_path / "runs" / "d" / "config.json").write_text("{}", encoding="utf-8")
    recorded("e", "gigpo", 7000.0, cpu="of another machine")
    after = {"grpo": (20.0, True), "gigpo": (80.0, True), "gated_bepo": (60.0, True), "ppo": before["ppo"]}
    assert estimates("small") == after and not any(measured for _, measured in estimates("large").values())
    recorded("f", "grpo", 100.0, model="large")
    assert estimates("large")["gigpo"] == (200.0, True) and estimates("small") == after
    recorded("g", "ppo", 70.0)
    assert estimates("small") == after | {"ppo": (140.0, True)}
    begun = next(r for r in runs if r.config.credit.name == "ppo" and r.config.model == "large")
    with begun.folder.locked():
        begun.folder.start({}, {"started": "now"})
        begun.folder.append("metrics", *({"update": u, "cpu/update": 1.0, "time/update": 30.0} for u in range(5)))
    assert estimates("large")["ppo"] == (15 * 30.0, True)  # what the run itself took

    shown = io.StringIO()
    view = View(Throughput(tmp_path), 1, 1, out=shown)
    worker = Worker(begun, SimpleNamespace(exitcode=None), started=time.monotonic() - 900)
    view.started(worker)
    view.last_total -= 100
    view.draw([worker], [], 0)
    begun.folder.append("metrics", *({"update": u, "time/update": 90.0} for u in range(5, 10)))  # slower now
    view.last_total -= 100
    view.draw([worker], [], 0)
    first, last = (line.rpartition(", ")[2] for line in shown.getvalue().splitlines()[1:])
    assert (first, last) == ("about 7 min 30 s left", "about 15 min 00 s left")  # 15 updates of 30 s, 10 of 90
    assert list(Throughput(tmp_path).corrupt) == ["d"] and "config.json: changed" in Throughput(tmp_path).corrupt["d"]


def test_a_plan_needs_no_device(tmp_path):
    """GPU-hours from constants, and what this machine lacks."""
    overrides = [f"results={tmp_path}", "tier=paper", "backend.device=cuda", "env.data=generated"]
    runs = plan_runs([compose_study("main_alfworld", [*overrides, "credit=grpo", "seed=0"])])
    text = format_plan(runs, {r.id: r.progress() for r in runs}, Throughput(tmp_path), jobs=1, cells=False)
    hours = 150 * (226 * 2 + 340 * 4) / 3600  # two models
    assert f"{hours:.0f} GPU-hours (from constants" in text
    if not torch.cuda.is_available():
        assert "not on this machine: backend.device=cuda: torch finds no GPU" in text

    verl = plan_runs([compose_study("main_alfworld", ["tier=paper", "backend=verl", "backend.n_gpus=1024"])])
    assert len(verl) == 42 and all(run.obstacle for run in verl)


def test_what_this_machine_lacks_is_said_before_anything_is_begun(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("WEBSHOP_DATA", raising=False)
    code = main(["gae_lambda", "env.data=original", f"results={tmp_path}"])
    out = capsys.readouterr().out
    assert code == 1 and "0 of 4 runs complete" in out, out
    assert out.count("WEBSHOP_DATA are not set") == 2 and out.count("        gae_lambda  credit.gae_lambda=") == 4
    assert not list(tmp_path.glob("runs/*/*"))


def test_shards_are_disjoint_and_complete(tmp_path, capsys):
    found = []
    for shard in ("1/3", "2/3", "3/3"):
        assert main([*GRID, f"results={tmp_path}", "--dry-run", "--shard", shard]) == 0
        found += re.findall(r"^([0-9a-f]{12})  missing", capsys.readouterr().out, re.MULTILINE)
    assert len(found) == len({*found}) == 4
    for wrong in ("0/3", "4/3", "x", "1/"):
        with pytest.raises(SystemExit, match="2"):
            main([*GRID, "--shard", wrong])
        assert "write I/N with I from 1 to N" in capsys.readouterr().err


def test_a_file_system_without_locks_is_refused(tmp_path, monkeypatch, capsys):
    class Nothing:
        def release(self):
            pass

    monkeypatch.setattr(find, "try_acquire", lambda path: Nothing())
    assert main([*GRID, f"results={tmp_path / 'here'}"]) == 2
    assert "has no working file locks; choose a folder on another one" in capsys.readouterr().err
    assert not list(tmp_path.glob("here/*"))


def test_a_corrupt_run_is_named_and_left_alone(tmp_path, capsys):
    """Two of three complete cells are damaged on disk: neither counts, neither is touched, and the third is trained."""
    settings = ("main_sokoban", *TINY, "updates=1", "credit=grpo", "--jobs", "2")
    code, out = finish(sweep(tmp_path, *settings, "seed=0,1"))
    assert code == 0, out
    metrics, run_file = sorted(tmp_path.glob("runs/*/run.json"))
    metrics = metrics.with_name("metrics.jsonl")
    metrics.write_text("", encoding="utf-8")
    run_file.write_text(run_file.read_text(encoding="utf-8")[:100], encoding="utf-8")
    before = {path: path.read_bytes() for path in tmp_path.glob("runs/*/*.json*")}

    assert main([*settings, "seed=0,1,2", f"results={tmp_path}", "--dry-run"]) == 1
    out = capsys.readouterr().out
    assert "1 to do" in out and out.count("CORRUPT main_sokoban  seed=") == 2
    assert "main_sokoban                 3         0         0         1         2" in out
    code, out = finish(sweep(tmp_path, *settings, "seed=0,1,2"))
    assert code == 1 and "1 of 3 runs complete" in out, out
    assert f"FAILED  {metrics}: changed since the run was completed" in out
    assert f"FAILED  {run_file}: not a run file" in out
    assert f"python -m analysis runs delete {metrics.parent.name} --results {tmp_path}" in out
    assert before.items() <= {path: path.read_bytes() for path in tmp_path.glob("runs/*/*.json*")}.items()

    assert analysis(["runs", "delete", metrics.parent.name, run_file.parent.name, "--results", str(tmp_path)]) == 0
    capsys.readouterr()
    assert main([*settings, "seed=0,1,2", f"results={tmp_path}", "--dry-run"]) == 0
    assert "main_sokoban                 3         1         0         2       -" in capsys.readouterr().out


def test_a_sweep_takes_the_cores_that_it_may_use(monkeypatch):
    """joblib asks the control group too; the variable stands for a quota of it."""
    study = compose_study("main_sokoban", ["tier=smoke"])
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    assert _jobs(None, [study]) == 1
    assert _jobs(3, [study]) == 3


@pytest.mark.long
def test_a_sweep_works_in_an_inconvenient_place(tmp_path):
    """Started as a user does: a read-only home, long names, a terminal of ASCII, and results in a folder that is not.

    W&B stages tables in the home, and the ledger is one. The workers' server has its socket in the temporary folder.
    """
    home, temporary, results = tmp_path / "home", tmp_path / ("x" * 80), tmp_path / "größe"
    home.mkdir(mode=0o555)
    temporary.mkdir()
    command = [sys.executable, "-m", "tests.without_rights", "bepo.sweep", "main_sokoban", *TINY, "updates=2"]
    command += ["credit=grpo", "seed=0"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WANDB_S") and k != "XDG_DATA_HOME"}
    environment |= {"HOME": str(home), "TMPDIR": str(temporary), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [*command, "tracking.mode=offline", f'results="{results}"'],
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    printed = done.stdout + done.stderr
    assert done.returncode == 0 and "1 of 1 runs complete" in printed and "Traceback" not in printed, printed
    (log,) = results.glob("runs/*/log.txt")
    text = log.read_text(encoding="utf-8")
    assert "/größe/runs/" in text and "W&B stopped" not in text
    assert list(results.glob("wandb/offline-run-*/files/media/table/ledger*"))


def test_a_repository_may_have_any_name(tmp_path, monkeypatch):
    """Hydra parses the names of folders with config files as it parses values."""
    folder = tmp_path / "it's, [a] {b} #c"
    for source in (CONF, EXPERIMENTS):
        shutil.copytree(source, folder / source.name)
    monkeypatch.setattr(composition, "CONF", folder / "conf")
    assert composition.compose_with_hydra(folder / "experiments", "main_sokoban", ["tier=laptop"]).tier == "laptop"


@pytest.mark.parametrize("arguments", [(), ("--jobs=1", "tier=smoke")])
def test_without_a_name_it_lists_the_studies_and_trains_nothing(arguments, tmp_path):
    command = sweep(tmp_path / "results", *arguments)
    out, _ = command.communicate()
    assert command.returncode == 2 and not (tmp_path / "results").exists()
    assert re.search(r"^gate_form +Is a soft gate, which opens gradually with evidence, better", out, re.M)
    assert out.splitlines()[-1].startswith("No study is named, so nothing is trained.")


@pytest.mark.parametrize("module", ["bepo.sweep", "bepo.train", "analysis"])
def test_ctrl_c_while_a_command_is_imported(module, tmp_path):
    """A package that is imported early takes its time: the signal comes meanwhile."""
    (tmp_path / "numpy.py").write_text("print('imported', flush=True)\nimport time\ntime.sleep(60)", encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}
    process = subprocess.Popen(
        [sys.executable, "-m", module, "--help"],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stdout.readline() == "imported\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert err == "interrupted\n" and process.returncode == -signal.SIGINT
