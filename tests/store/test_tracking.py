"""W&B mirrors the run folder: the two are held against each other."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bepo import upload
from bepo.store.cells import note_cell
from bepo.store.run_files import read_run
from tests.command import SMALLEST, Command, launch, rows, stop_after, train

pytestmark = [pytest.mark.slow, pytest.mark.long]  # these train

WANDB = Path(sys.executable).parent / "wandb"


def logged(log: Path) -> list[dict]:
    """What an offline run would send to the server."""
    printed = subprocess.run(
        [WANDB, "leet", "inspect", "--json", log], capture_output=True, text=True, check=True, encoding="utf-8"
    )
    return [json.loads(line) for line in printed.stdout.splitlines()]


def own_service() -> dict[str, str]:
    """The environment of a program that starts a wandb-core of its own, not that of a test before it."""
    return {name: value for name, value in os.environ.items() if name != "WANDB_SERVICE"}


def described(found: list[dict]) -> dict:
    """The run as a user of the site sees it at the end: name, group, job type, tags, config."""
    return [entry["run"] for entry in found if entry["type"] == "run"][-1]


def summary(found: list[dict]) -> dict:
    return {k: v for e in found if e["type"] == "summary" for k, v in e["summary"]["update"].items()}


def test_the_offline_run_holds_the_same_rows_config_and_result(tmp_path):
    code, _, err = train(tmp_path, "tracking.mode=offline", "updates=6", "+study.name=shared")
    assert code == 0, err
    (log,) = tmp_path.glob("runs/*/wandb/offline-run-*/run-*.wandb")
    found = logged(log)
    history = [entry["history"]["item"] for entry in found if entry["type"] == "history"]
    local = rows(tmp_path, "metrics")
    assert [h["_step"] for h in history] == [r["update"] for r in local]
    for theirs, ours in zip(history, local):
        assert {k: theirs[k] for k in ours} == pytest.approx(ours, nan_ok=True)
    (path,) = tmp_path.glob("runs/*")
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    run = described(found)
    assert (run["run_id"], run["run_group"], run["job_type"]) == (path.name, "shared", "training")
    assert run["display_name"].startswith("sokoban ") and run["display_name"].endswith(" seed=0")
    assert {"smoke", "sokoban", "gated_bepo", "small", "shared"} < set(run["tags"])
    theirs = run["config"]["update"]
    parts = ("env", "policy", "credit", "loss", "rollout", "training", "evaluation", "seed", "updates")
    assert {name: theirs[name] for name in parts} == {name: config[name] for name in parts}
    assert (theirs["environment"], theirs["method"], theirs["studies"]) == ("sokoban", "gated_bepo", ["shared"])
    assert not {"tracking", "results", "study"} & theirs.keys()
    (axis,) = [e["metric"] for e in found if e["type"] == "metric" and e["metric"].get("glob_name") == "*"]
    assert axis["step_metric"] == "update"
    episodes = [r for r in rows(tmp_path, "episodes") if (r["split"], r["update"]) == ("test", 0)]
    merged = summary(found)
    assert merged["test_success"] == json.loads((path / "run.json").read_text(encoding="utf-8"))["result"]["success"]
    assert merged["test_success_before_training"] == sum(r["success"] for r in episodes) / len(episodes)
    assert merged["validation_success"] == local[4]["eval/validation_success"]
    assert merged["seconds"] > 0 and merged["cpu_seconds"] > 0
    kept = {p.as_posix() for e in found if e["type"] == "files" for p in map(Path, _paths(e["files"]))}
    assert {f"runs/{path.name}/{n}" for n in ("config.json", "metrics.jsonl", "episodes.jsonl", "run.json")} <= kept
    assert any(name.startswith("studies/shared/smoke/") for name in kept)
    (table,) = (
        json.loads(file.read_text(encoding="utf-8")) for file in log.parent.glob("files/media/table/transcripts_*.json")
    )
    transcripts = read_run(path).transcripts()
    assert [row[0] for row in table["data"]] == [episode["task"] for episode in transcripts]
    assert table["data"][0][-1].count("\n> ") == len(transcripts[0]["steps"])


def test_a_resumed_run_stays_where_it_began_and_names_the_studies_that_share_it(tmp_path):
    """It was begun by one study, is resumed by another, and a third points at it by then."""
    settings = ("tracking.mode=offline", f"results={tmp_path}", "updates=300")
    first = launch(*SMALLEST, *settings, "+study.name=first", "credit.gamma=0.9")
    stop_after(first, tmp_path, 5, signal.SIGINT)
    first.communicate()
    (path,) = tmp_path.glob("runs/*")
    begun = described(logged(next(path.glob("wandb/offline-run-*/run-*.wandb"))))
    overrides = json.loads(next(tmp_path.glob("studies/first/smoke/*.json")).read_text(encoding="utf-8"))["overrides"]
    note_cell(tmp_path, "third", "smoke", overrides, path.name, ["credit.gamma=0.9"])
    second = launch(*SMALLEST, *settings, "+study.name=second", "credit.gamma=0.9")
    stop_after(second, tmp_path, 12, signal.SIGINT)
    second.communicate()
    (log,) = tmp_path.glob("runs/*/wandb/offline-run-*/run-*.wandb")  # earlier ones say nothing that it does not
    found = logged(log)
    resumed = described(found)
    assert (resumed["run_id"], resumed["run_group"]) == (path.name, "first")
    assert resumed["config"]["update"]["cell"] == begun["config"]["update"]["cell"]
    assert {"first", "second", "third"} < set(resumed["tags"])
    assert resumed["config"]["update"]["studies"] == ["first", "second", "third"]
    history = [entry["history"]["item"] for entry in found if entry["type"] == "history"]
    local = rows(tmp_path, "metrics")
    assert [row["_step"] for row in history] == list(range(1, len(local) + 1)) and len(local) >= 12
    for theirs, ours in zip(history, local):
        assert {k: theirs[k] for k in ours} == pytest.approx(ours, nan_ok=True)


def test_ctrl_c_while_a_complete_run_is_handed_over_leaves_it_complete_in_wandb_too(tmp_path, monkeypatch):
    monkeypatch.delenv("WANDB_SERVICE", raising=False)
    settings = (*SMALLEST, "tracking.mode=offline", f"results={tmp_path}", "updates=4")
    ended = Command("tests.store.interrupted_at_the_end", *settings)
    out, err = ended.communicate()
    assert ended.returncode == 130 and "stopping after the end of this run" in err, err
    assert "test success 0." in out
    (log,) = tmp_path.glob("runs/*/wandb/offline-run-*/run-*.wandb")
    found = logged(log)
    (path,) = tmp_path.glob("runs/*/run.json")
    assert summary(found)["test_success"] == json.loads(path.read_text(encoding="utf-8"))["result"]["success"]
    assert [entry["exit"] for entry in found if entry["type"] == "exit"][-1].get("exit_code", 0) == 0


def test_a_finished_sweep_uploads_its_ledger(tmp_path):
    """Two studies share both of their runs."""
    studies = ("step_weight", "gae_lambda", "credit.step_weight=1.5", "credit.gae_lambda=0.5,0.8", "credit=gated_bepo")
    command = Command("bepo.sweep", *studies, *SMALLEST, "env=sokoban", "updates=2", "tracking.mode=offline",
                      f"results={tmp_path}", "--jobs", "1")  # fmt: skip
    out, err = command.communicate()
    assert command.returncode == 0, out + err
    (log,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    run = described(logged(log))
    assert (run["run_group"], run["job_type"]) == ("smoke", "sweep")
    assert run["display_name"] == "sweep step_weight gae_lambda smoke"
    assert set(run["tags"]) == {"smoke", "step_weight", "gae_lambda"}
    (file,) = log.parent.glob("files/media/table/ledger_*.json")
    table = json.loads(file.read_text(encoding="utf-8"))
    assert table["columns"] == ["study", "cell", "status", "run", "success", "seconds", "cpu_seconds", "problem"]
    assert sorted(row[0] for row in table["data"]) == ["gae_lambda"] * 2 + ["step_weight"] * 2
    stored = {path.parent.name: read_run(path.parent) for path in tmp_path.glob("runs/*/run.json")}
    assert {row[3] for row in table["data"]} == stored.keys() and len(stored) == 2
    for _, _, status, identifier, success, seconds, cpu_seconds, problem in table["data"]:
        assert (status, success, problem) == ("complete", stored[identifier].metadata["result"]["success"], "")
        rows_of_run = stored[identifier].metrics()
        assert cpu_seconds == pytest.approx(sum(v for row in rows_of_run for k, v in row.items() if k[:4] == "cpu/"))
        assert seconds > 0
    shared = described(logged(next(tmp_path.glob("runs/*/wandb/offline-run-*/run-*.wandb"))))
    assert {"step_weight", "gae_lambda"} < set(shared["tags"]) and shared["run_group"] == "step_weight"


def _paths(entry):
    return [f["path"] for f in entry.get("files", entry if isinstance(entry, list) else [])]


def test_the_command_explains_itself_and_refuses_what_is_no_project(tmp_path, capsys):
    assert upload.main(["some/where", str(tmp_path)]) == 2 and "no study cells" in capsys.readouterr().err
    for arguments, code in ((["--help"], 0), (["nowhere"], 2)):
        with pytest.raises(SystemExit, match=str(code)):
            upload.main(arguments)
    out, err = capsys.readouterr()
    assert "Upload the study cells" in out and "'nowhere' is not ENTITY/PROJECT" in err


SILENT = """
import os, signal, subprocess, sys, threading
from pathlib import Path
from bepo.store.tracking import Labels, Tracking
from bepo.store.tracking import wandb as tracking

folder, how = Path(sys.argv[1]), sys.argv[2]
tracker = tracking.Tracker(Tracking(), "silent", folder, Labels("silent", "", "training"))
tracker.log({"update": 1, "loss": 0.5})
core = int(subprocess.run(["pgrep", "-P", str(os.getpid()), "wandb-core"], capture_output=True, check=True).stdout)
print(core, flush=True)
os.kill(core, signal.SIGSTOP)
tracking._TEARDOWN_TIMEOUT = 1.0
if how == "interrupted":
    threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
else:
    tracking._TIMEOUT = 2.0
try:
    tracker.finish({"test_success": 1.0})
except KeyboardInterrupt:
    tracker.finish(None)
tracker.log({"update": 2, "loss": 0.25})
print("the end", flush=True)
sys.exit(3)
"""


@pytest.mark.parametrize(
    "how, said",
    [("waiting", "W&B stopped (no answer for 2 seconds); the run continues without it\n"), ("interrupted", "")],
    ids=["waiting", "interrupted"],
)
def test_a_service_that_never_answers_keeps_no_run_from_its_end(tmp_path, how, said):
    """Its process is stopped, so that it answers neither the run nor W&B's own hook when the program ends."""
    out, err = tmp_path / "out", tmp_path / "err"  # no pipes: wandb-core, which is stopped, would hold them open
    with out.open("w", encoding="utf-8") as stdout, err.open("w", encoding="utf-8") as stderr:
        command = [sys.executable, "-c", SILENT, tmp_path, how]
        program = subprocess.Popen(command, stdout=stdout, stderr=stderr, env=own_service())
        try:
            status = program.wait(timeout=120)
        finally:
            program.kill()
            core, *rest = out.read_text(encoding="utf-8").splitlines() or [""]
            if core:
                os.kill(int(core), signal.SIGKILL)
    assert (status, rest, err.read_text(encoding="utf-8")) == (3, ["the end"], said)


def test_a_sweep_of_wandbs_does_not_change_the_id(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_SWEEP_ID", "abc")
    code, _, err = train(tmp_path, "tracking.mode=offline", "updates=1")
    assert code == 0 and "WANDB_SWEEP_ID=abc: ignored" in err, err
    (run,) = tmp_path.glob("runs/*")
    (log,) = run.glob("wandb/offline-run-*/run-*.wandb")
    assert log.name == f"run-{run.name}.wandb"


def test_tensorboard_and_trackio_hold_the_rows_also_of_a_resumed_run(tmp_path, monkeypatch):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    sqlite_storage = pytest.importorskip("trackio.sqlite_storage")
    settings = ("tracking.sinks=[tensorboard,trackio]", "tracking.project=mine", "updates=8")
    process = launch(*SMALLEST, f"results={tmp_path}", *settings)
    stop_after(process, tmp_path, 3, signal.SIGKILL)
    process.communicate()
    code, _, err = train(tmp_path, *settings)
    assert code == 0 and "stopped" not in err, err
    (path,) = tmp_path.glob("runs/*")
    local = rows(tmp_path, "metrics")
    board = EventAccumulator(str(path / "tensorboard"))
    board.Reload()
    logged = [(event.step, event.value) for event in board.Scalars("train/success")]
    assert logged == [(row["update"], pytest.approx(row["train/success"])) for row in local]
    success = json.loads((path / "run.json").read_text(encoding="utf-8"))["result"]["success"]
    assert board.Scalars("summary/test_success")[0].value == pytest.approx(success)
    assert any(tag.startswith("transcripts/") for tag in board.Tags()["tensors"])
    assert "gated_bepo" in board.Tensors("run/text_summary")[0].tensor_proto.string_val[0].decode()
    monkeypatch.setattr(sqlite_storage, "TRACKIO_DIR", tmp_path / "trackio")
    stored = [row for row in sqlite_storage.SQLiteStorage.get_logs("mine", path.name) if "train/success" in row]
    assert [(row["step"], row["train/success"]) for row in stored] == [(r["update"], r["train/success"]) for r in local]
    assert sqlite_storage.SQLiteStorage.get_run_config("mine", path.name)["credit"]["name"] == "gated_bepo"
    assert not list(path.glob("wandb"))


def test_a_sink_that_fails_or_is_not_installed_does_not_stop_a_run(tmp_path, monkeypatch, capsys):
    from bepo.store.tracking import Labels, Trackers, Tracking, tensorboard

    monkeypatch.setitem(sys.modules, "trackio", None)
    monkeypatch.setattr(tensorboard.Tracker, "log", lambda *_: 1 / 0)
    trackers = Trackers(
        Tracking(sinks=["tensorboard", "trackio"]), "run", tmp_path / "runs" / "run", Labels("a", "", "training")
    )
    for update in (1, 2):
        trackers.log({"update": update, "train/loss": 0.5})
    trackers.finish({"test_success": 1.0})
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and "trackio stopped" in lines[0] and "pip install trackio" in lines[0]
    assert lines[1] == "tensorboard stopped (division by zero); the run continues without it"


def test_an_unknown_sink_is_one_line(tmp_path):
    code, _, err = train(tmp_path, "tracking.sinks=[tensorbord]")
    assert code == 2 and "unknown sink of tracking.sinks 'tensorbord'" in err and "did you mean tensorboard" in err
