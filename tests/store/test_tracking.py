"""W&B mirrors the run folder: the two are held against each other."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bepo import upload
from tests.command import rows, train

pytestmark = pytest.mark.slow  # these train

WANDB = Path(sys.executable).parent / "wandb"


def test_the_offline_run_holds_the_same_rows_config_and_result(tmp_path):
    code, _, err = train(tmp_path, "tracking.mode=offline", "updates=6", "+study.name=shared")
    assert code == 0, err
    (log,) = tmp_path.glob("runs/*/wandb/offline-run-*/run-*.wandb")
    printed = subprocess.run([WANDB, "leet", "inspect", "--json", log], capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in printed.stdout.splitlines()]
    history = [entry["history"]["item"] for entry in found if entry["type"] == "history"]
    local = rows(tmp_path, "metrics")
    assert [h["_step"] for h in history] == [r["update"] for r in local]
    for theirs, ours in zip(history, local):
        assert {k: theirs[k] for k in ours} == pytest.approx(ours, nan_ok=True)
    (path,) = tmp_path.glob("runs/*")
    config = json.loads((path / "config.json").read_text())
    run = next(entry["run"] for entry in found if entry["type"] == "run")
    assert run["run_id"] == path.name
    assert run["config"]["update"]["credit"] == pytest.approx(config["credit"])
    facts = json.loads((path / "run.json").read_text())
    summaries = [entry["summary"]["update"] for entry in found if entry["type"] == "summary"]
    merged = {k: v for update in summaries for k, v in update.items()}
    assert merged["test_success"] == pytest.approx(facts["result"]["success"])
    kept = {p.as_posix() for e in found if e["type"] == "files" for p in map(Path, _paths(e["files"]))}
    assert {f"runs/{path.name}/{n}" for n in ("config.json", "metrics.jsonl", "episodes.jsonl", "run.json")} <= kept
    assert any(name.startswith("studies/shared/smoke/") for name in kept)


def _paths(entry):
    return [f["path"] for f in entry.get("files", entry if isinstance(entry, list) else [])]


def test_the_command_explains_itself_and_refuses_what_is_no_project(tmp_path, capsys):
    assert upload.main(["some/where", str(tmp_path)]) == 2 and "no study cells" in capsys.readouterr().err
    for arguments, code in ((["--help"], 0), (["nowhere"], 2)):
        with pytest.raises(SystemExit, match=str(code)):
            upload.main(arguments)
    out, err = capsys.readouterr()
    assert "Upload the study cells" in out and "'nowhere' is not ENTITY/PROJECT" in err
