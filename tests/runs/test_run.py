"""One run's life, through the real command: resume, idempotence, bad input."""

import itertools
import shutil
import signal

import numpy as np
import pytest
from transformers import AutoModelForCausalLM

from bepo.core.batch import RolloutBatch
from bepo.store.files import Corrupt
from bepo.store.run_files import STREAMS, read_run
from bepo.store.runs import run_id
from tests.command import SHORT_START, SMALLEST, launch, python, rows, start, stop_after, train, without_seconds

pytestmark = pytest.mark.slow  # these train


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An undisturbed run."""
    results = tmp_path_factory.mktemp("whole")
    code, out, err = train(results)
    assert code == 0, err
    return results, out


def test_run_json_describes_the_run(whole):
    results, out = whole
    (path,) = results.glob("runs/*")
    found = read_run(path)
    assert found.id == path.name and found.id in out
    assert found.metadata["tier"] == "smoke" and found.metadata["seed"] == 0
    assert {s: p["tasks"] for s, p in found.metadata["task_sets"].items()} == {"train": 8, "validation": 4, "test": 4}
    (session,) = found.metadata["sessions"]
    assert session.keys() == {"started", "study", "job", "commit", "dirty", "plugins", "machine", "settings"}
    assert session["machine"]["threads"] == 1 and {"cpu", "instructions", "blas"} < session["machine"].keys()
    assert run_id(found.metadata["identity"]) == found.id
    assert "torch" in session["machine"]["versions"]
    metrics = found.metrics()
    assert [r["update"] for r in metrics] == list(range(1, 16))
    for name in ("train/success", "train/return", "credit/gate_transition_coverage", "credit/sweeps", "time/credit"):
        assert all(name in r for r in metrics)
    assert max(r["train/first_ratio_error"] for r in metrics) < 1e-5
    episodes = found.episodes()
    for split, update in itertools.product(("test", "validation"), (0, 15)):
        passes = [r for r in episodes if (r["split"], r["update"]) == (split, update)]
        assert len(passes) == 8 and {r["evaluation_seed"] for r in passes} == {0, 1}
        assert len({r["task"] for r in passes}) == 4
    final = [r["success"] for r in episodes if (r["split"], r["update"]) == ("test", 15)]
    assert found.metadata["result"]["success"] == pytest.approx(sum(final) / 8)
    due = [r for r in metrics if "eval/test_success" in r]
    assert [r["update"] for r in due] == [5, 10, 15]
    for row in due:
        here = [r for r in episodes if r["update"] == row["update"] and r["evaluation_seed"] == 0]
        assert len(here) == 8
        assert row["eval/test_success"] == sum(r["success"] for r in here if r["split"] == "test") / 4
    assert {r["evaluation_seed"] for r in episodes if 0 < r["update"] < 15} == {0}


def test_what_a_finished_run_keeps(whole):
    (path,) = whole[0].glob("runs/*")
    found = read_run(path)
    assert not list(path.glob("checkpoint-*"))
    assert AutoModelForCausalLM.from_pretrained(found.policy()).config.model_type == "qwen2"
    assert sorted(p.name for p in path.glob("rollouts/*")) == ["000001.npz", "000008.npz", "000015.npz"]
    batch = RolloutBatch.load(path / "rollouts" / "000008.npz")
    assert len(batch) == found.metrics()[7]["train/transitions"]
    assert set(batch.action_key) <= {"up", "down", "left", "right"} and np.isfinite(batch.extras["entropy"]).all()
    assert (batch.extras["entropy"] <= np.log(len(batch.tokens.ids))).all() and "expert_steps" not in batch.extras
    transcripts = found.transcripts()
    final = [r for r in found.episodes() if (r["split"], r["update"], r["evaluation_seed"]) == ("test", 15, 0)]
    assert [t["task"] for t in transcripts] == [r["task"] for r in final]
    for transcript, row in zip(transcripts, final):
        assert len(transcript["steps"]) == row["steps"]
        assert transcript["end"] == ("success" if row["success"] else "truncation")  # no board of Sokoban fails earlier
        assert sum(step["reward"] for step in transcript["steps"]) == pytest.approx(row["return"])
        assert all(step["prompt"] and step["observation"] for step in transcript["steps"])
    for name in ("transcripts.jsonl.gz", "rollouts/000001.npz"):
        assert name in found.metadata["files"]


def test_evaluations_of_the_first_policy_are_made_once_and_shared(whole, tmp_path):
    shutil.copytree(whole[0], tmp_path, dirs_exist_ok=True)
    kept = {p: p.stat().st_mtime_ns for p in tmp_path.glob("first_evaluations/*.json")}
    assert len(kept) == 4  # two splits, two evaluation seeds
    assert train(tmp_path, "seed=1", "updates=1")[0] == 0
    assert {p: p.stat().st_mtime_ns for p in tmp_path.glob("first_evaluations/*.json")} == kept
    first = [[r for r in read_run(p).episodes() if r["update"] == 0] for p in tmp_path.glob("runs/*")]
    assert len(first) == 2 and first[0] == first[1]


def test_a_first_evaluation_under_the_name_of_another_is_refused(whole, tmp_path):
    shutil.copytree(whole[0] / "first_evaluations", tmp_path / "first_evaluations")
    (first,) = tmp_path.glob("first_evaluations/sokoban-test-0-*.json")
    (second,) = tmp_path.glob("first_evaluations/sokoban-test-1-*.json")
    shutil.copy(first, second)
    code, _, err = train(tmp_path, "seed=1", "updates=1")
    assert code == 2 and f"{second.name}: made for other settings (evaluation_seed is 0, not 1)" in err


def test_evaluations_change_no_training_number(whole, tmp_path):
    assert train(tmp_path, "evaluation.every=0", "updates=8")[0] == 0
    expected = [{k: v for k, v in r.items() if not k.startswith("eval/")} for r in rows(whole[0], "metrics")]
    assert rows(tmp_path, "metrics") == expected[:8]


@pytest.mark.parametrize("shorter", [10, 7])  # with and without an evaluation after its last update
def test_a_run_of_more_updates_goes_on_from_a_finished_one(whole, tmp_path, shorter):
    assert train(tmp_path, f"updates={shorter}", "keep=resume")[0] == 0
    (short,) = tmp_path.glob("runs/*")
    assert [p.name for p in short.glob("checkpoint-*")] == [f"checkpoint-{shorter}"]
    code, _, err = train(tmp_path)
    assert code == 0 and f"from update {shorter} of run {short.name}" in err
    (expected,) = whole[0].glob("runs/*")
    found = read_run(tmp_path / "runs" / expected.name)
    for stream in STREAMS:
        assert without_seconds(found.path, stream) == without_seconds(expected, stream)
    assert len(found.metadata["sessions"]) == 2 and read_run(short)
    assert found.transcripts() == read_run(expected).transcripts()


def test_a_run_with_late_passes_goes_on_from_no_shorter_run(tmp_path):
    """The shorter run made its late passes at other updates."""
    late = ("evaluation.every=0", "evaluation.late_passes=2")
    assert train(tmp_path, "updates=10", "keep=resume", *late)[0] == 0
    code, _, err = train(tmp_path, "updates=20", *late)
    assert code == 0 and "continues" not in err
    found = {row["update"] for run in tmp_path.glob("runs/*") for row in read_run(run).episodes()}
    assert found == {0, 9, 10, 18, 20}


def test_a_finished_run_without_its_optimiser_cannot_be_continued(tmp_path):
    assert train(tmp_path, "updates=1")[0] == 0
    code, _, err = train(tmp_path, "updates=2")
    (line,) = [line for line in err.splitlines() if "keep=resume" in line]
    assert code == 0 and "of 1 updates kept only its policy" in line
    assert sorted(len(read_run(p).metrics()) for p in tmp_path.glob("runs/*")) == [1, 2]


def test_a_run_goes_on_with_the_start_that_it_began_with(tmp_path):
    """Another number of threads would fit another warm start, and that would be the reference of the KL term."""
    settings = [*(setting for setting in SMALLEST if "warm_start" not in setting), *SHORT_START, f"results={tmp_path}"]
    begun = launch(*settings, "checkpoint_every=1")
    stop_after(begun, tmp_path, 2, signal.SIGKILL)
    begun.communicate()
    (path,) = tmp_path.glob("runs/*")
    refused = python("-m", "bepo.train", *settings, "checkpoint_every=1", "backend.threads=2")
    assert refused.returncode == 2 and f"run {path.name}: began with the warm start sokoban-tiny-" in refused.stderr
    assert len([folder for folder in (tmp_path / "warm_starts").iterdir() if folder.is_dir()]) == 1
    assert python("-m", "bepo.train", *settings, "checkpoint_every=1").returncode == 0
    assert [session["machine"]["threads"] for session in read_run(path).metadata["sessions"]] == [1, 1]


def test_a_longer_run_with_another_start_begins_anew(tmp_path):
    settings = [*(setting for setting in SMALLEST if "warm_start" not in setting), *SHORT_START, f"results={tmp_path}"]
    assert python("-m", "bepo.train", *settings, "updates=1", "keep=resume").returncode == 0
    more = python("-m", "bepo.train", *settings, "updates=2", "backend.threads=2")
    assert more.returncode == 0 and "starts at update 0" in more.stderr, more.stderr
    found = [read_run(path.parent).metadata["warm_start"]["name"] for path in tmp_path.glob("runs/*/run.json")]
    assert len(set(found)) == 2


def test_killed_twice_it_ends_with_the_same_rows(whole, tmp_path):
    for rows_before in (2, 7):
        process = start(tmp_path)
        stop_after(process, tmp_path, rows_before, signal.SIGKILL)
        process.communicate()
        (path,) = tmp_path.glob("runs/*")
        with pytest.raises(Corrupt, match="incomplete"):
            read_run(path)
    code, _, err = train(tmp_path)
    assert code == 0, err
    for stream in STREAMS:
        assert rows(tmp_path, stream) == rows(whole[0], stream)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_a_checkpoint_and_the_same_command_goes_on(whole, tmp_path, number):
    process = start(tmp_path)
    stop_after(process, tmp_path, 6, number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "the same command continues" in err
    reached = len(rows(tmp_path, "metrics"))
    assert max(int(p.name.split("-")[1]) for p in tmp_path.glob("runs/*/checkpoint-*")) == reached
    assert train(tmp_path)[0] == 0
    assert rows(tmp_path, "metrics") == rows(whole[0], "metrics")


def test_a_complete_run_is_not_repeated(whole):
    results, _ = whole
    before = {p: p.stat().st_mtime_ns for p in results.glob("runs/*/*") if p.is_file() and p.name != ".lock"}
    code, out, _ = train(results, "tracking.project=other", "checkpoint_every=7")  # neither can change a result
    assert code == 0 and "is complete" in out
    assert {p: p.stat().st_mtime_ns for p in before} == before


def test_a_corrupt_run_is_named_and_kept(whole, tmp_path):
    shutil.copytree(whole[0], tmp_path, dirs_exist_ok=True)
    (metrics,) = tmp_path.glob("runs/*/metrics.jsonl")
    metrics.write_text(metrics.read_text(encoding="utf-8").replace("0.", "1.", 1), encoding="utf-8")
    altered = metrics.read_text(encoding="utf-8")
    code, _, err = train(tmp_path)
    assert code == 2 and "metrics.jsonl: changed since the run was completed; to train it again, remove it: " in err
    assert len(err.strip().splitlines()) == 1 and metrics.read_text(encoding="utf-8") == altered


def test_one_bad_cell_of_a_grid_does_not_stop_the_others(tmp_path):
    code, out, err = train(tmp_path, "-m", "updates=1", "seed=2,3", "env.min_solution=99,2", "hydra.launcher.n_jobs=1")
    assert code == 1 and "error: " in err and "seed=3 env.min_solution=99" in err
    cells = {line.partition(": ")[2].partition(",")[0] for line in out.splitlines() if line.startswith("run ")}
    assert cells == {f"sokoban env.min_solution=2 seed={seed}" for seed in (2, 3)}  # of 16 overrides
    assert len(list(tmp_path.glob("runs/*/run.json"))) == 2


def test_rollouts_are_kept_when_asked(tmp_path):
    code, _, err = train(tmp_path, "updates=4", "save_rollouts=3")
    assert code == 0, err
    *_, third, _ = kept = sorted(tmp_path.glob("runs/*/rollouts/*.npz"))
    assert len(kept) == 4
    batch = RolloutBatch.load(third)
    assert third.name == "000003.npz" and batch.n_trajectories == 6 and batch.n_groups == 2
    assert len(batch) == rows(tmp_path, "metrics")[2]["train/transitions"]


def test_ppo_trains_its_critic_and_resumes_with_it(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    settings = ("credit=ppo", "updates=6", "checkpoint_every=2", "training.critic.learning_rate=1e-3")
    code, _, err = train(whole, *settings)
    assert code == 0, err
    metrics = rows(whole, "metrics")
    assert all(r["train/value_loss"] > 0 and "credit/explained_variance" in r for r in metrics)
    assert metrics[0]["credit/value_mean"] == 0 != metrics[-1]["credit/value_mean"]
    process = start(parts, *settings)
    stop_after(process, parts, 3, signal.SIGKILL)
    process.communicate()
    assert train(parts, *settings)[0] == 0
    assert rows(parts, "metrics") == metrics
