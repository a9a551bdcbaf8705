"""``bepo.load``: names of runs, tidy tables, and what is refused."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

import bepo
from bepo.core.errors import UserError
from bepo.explore.frames import _storable, differing
from bepo.store import find
from bepo.store.archive import write_archive
from bepo.store.files import Corrupt
from bepo.store.json_files import write_sealed
from bepo.store.published import PUBLISHED
from bepo.store.run_files import read_run
from bepo.view import main
from tests.explore.runs_with_episodes import write


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    write(folder, "gated_bepo", 0, **{"credit.gamma": 0.9})
    write(folder, "gated_bepo", 1, **{"credit.gamma": 0.95})
    write(folder, "grpo", 0)
    return folder


def test_a_study_is_three_tidy_tables_whose_columns_say_what_differs(results):
    runs = bepo.load("explored", results=results)
    assert len(runs) == 3 and set(runs.runs["status"]) == {"complete"}
    for table in (runs.runs, runs.metrics, runs.episodes, runs.transcripts):
        assert list(table.columns[:4]) == ["run", "env", "credit", "seed"] and "credit.gamma" in table
    assert "credit.name" in runs.settings.index and "env.name" not in runs.settings.index
    assert len(runs.metrics) == 3 * 2 and runs.metrics["credit/gate"].eq(0.5).all()
    final = runs.episodes.query("final and split == 'test'").groupby(["credit", "seed"])["success"].mean()
    assert final["gated_bepo", 1] == pytest.approx(2 / 3) and final["grpo", 0] == pytest.approx(1 / 3)
    steps = runs.transcripts.query("task == 't0' and credit == 'grpo'")
    assert steps["step"].tolist() == [0, 1] and steps["action"].tolist() == ["go a", "go b"]


def test_groupby_keeps_the_rows_of_a_setting_that_is_null(tmp_path):
    for seed, clip in enumerate((None, 1.5, 3.0)):
        write(tmp_path, "gated_bepo", seed, **{"loss.dual_clip": clip})
    runs = bepo.load(tmp_path, results=tmp_path).runs
    assert dict(runs.groupby("loss.dual_clip").size()) == {"null": 1, 1.5: 1, 3.0: 1}


def test_evaluations_of_several_policies_keep_their_own_ids(tmp_path):
    """The setting ``run`` is the run whose policy is evaluated; the column ``run`` is the run ID."""
    ids = [write(tmp_path, "grpo", seed, run=policy).id for seed, policy in enumerate(("a" * 12, "b" * 12, None))]
    loaded = bepo.load(tmp_path, results=tmp_path)
    for table in (loaded.runs, loaded.metrics, loaded.episodes, loaded.transcripts):
        assert {*table["run"]} >= {*ids} and not {*table["run"]} & {"a" * 12, "b" * 12, "null"}
    assert loaded.settings.loc["run", ids].tolist() == ["a" * 12, "b" * 12, "null"]


def test_a_setting_that_is_newer_than_a_run_is_no_difference(results):
    run = bepo.load("explored", results=results).stored[0].config
    newer = {**run, "prompting": {"method": "direct", "trials": 10}, "run": None}
    assert list(differing({"a": run, "b": newer})["b"]) == []
    assert differing({"a": run, "b": {**newer, "prompting": {"trials": 3}}})["a"] == {"prompting.trials": 10}


def test_a_results_folder_that_is_not_there_is_misspelt(tmp_path):
    with pytest.raises(UserError, match="nowhere: no such folder"):
        bepo.load(results=tmp_path / "nowhere")


def test_the_settings_of_one_estimator_are_no_difference_to_another(results):
    own = bepo.load("explored", results=results)
    one_of_each = bepo.load(*[run.path for run in own.stored if run.config["seed"] == 0])
    assert list(one_of_each.settings.index) == ["credit.name"]


def test_rollouts_are_arrays(results):
    runs = bepo.load("explored", results=results)
    (run, update), *others = runs.kept()
    assert update == 1 and len(others) == 2
    assert runs.rollouts(run).n_trajectories == 6
    with pytest.raises(UserError, match=r"choices: .*, 1"):
        runs.rollouts(update=1)
    with pytest.raises(UserError, match=r"rollouts\(None, 7\)"):
        bepo.load(run, results=results).rollouts(update=7)


def test_names_are_folders_archives_ids_and_their_beginnings(results, tmp_path):
    run = bepo.load("explored", results=results).stored[0]
    archive = tmp_path / f"{run.id}.zip"
    write_archive(read_run(run.path), archive, complete=True)
    for name in (run.path, archive, run.id, run.id[:8]):
        found = bepo.load(name, results=results)
        assert [one.id for one in found.stored] == [run.id] and len(found.transcripts) == 6
    assert len(bepo.load(results)) == 3
    assert len(bepo.load(results=results)) > 3  # the published runs are there too
    for name, message in (
        (tmp_path / "none.zip", "no such archive"),
        ("zzz", "run 'zzz': not found"),
        ("", "run '': not found"),
        (43005925e283, "put it in quotes"),
    ):
        with pytest.raises(UserError, match=message):
            bepo.load(name, results=results)
    with pytest.raises(UserError, match="no run of tier paper"):
        bepo.load(results, tier="paper")


def test_a_study_is_never_the_beginning_of_a_run_id(results, tmp_path, monkeypatch):
    """`dad`, `bed` and `fee` begin published runs."""
    own = tmp_path / "own"
    shutil.copytree(results, own)
    published = sorted(path.stem for path in PUBLISHED.glob("*/*.zip"))
    name = published[0][:6]
    assert [run.id for run in bepo.load(name, results=own).stored] == [published[0]]
    (own / "studies" / "explored").rename(own / "studies" / name)
    assert len(bepo.load(name, results=own)) == 3
    with pytest.raises(UserError, match=f"study '{name}': not found in .*of tier paper"):
        bepo.load(name, results=own, tier="paper")
    (own / "studies" / name).rename(own / "studies" / published[0])
    with pytest.raises(UserError, match=f"{published[0]}: a run and a study have this name"):
        bepo.load(published[0], results=own)
    (tmp_path / f"{published[1][:6]}.yaml").touch()  # a study without runs
    monkeypatch.setattr(find, "EXPERIMENTS", tmp_path)
    with pytest.raises(UserError, match=r"study .*: not found"):
        bepo.load(published[1][:6], results=own)


def test_a_run_in_progress_is_shown_as_far_as_it_is(results, tmp_path):
    folder = bepo.load("explored", results=results).stored[0].path
    shutil.copytree(folder, tmp_path / "runs" / folder.name)
    running = tmp_path / "runs" / folder.name
    (running / "run.json").unlink()
    transcripts = (running / "transcripts.jsonl.gz").read_bytes()
    (running / "transcripts.jsonl.gz").write_bytes(transcripts[:30])
    runs = bepo.load(running)
    assert runs.runs.iloc[0][["status", "updates"]].tolist() == ["partial", 2] and runs.runs["success"].isna().all()
    assert len(runs.rollouts()) == 9 and runs.transcripts.empty


def test_a_changed_run_is_refused(results, tmp_path):
    folder = bepo.load("explored", results=results).stored[0].path
    shutil.copytree(folder, tmp_path / folder.name)
    (tmp_path / folder.name / "metrics.jsonl").write_text("{}\n", encoding="utf-8")
    with pytest.raises(Corrupt, match="changed since the run was completed"):
        bepo.load(tmp_path / folder.name)


def test_a_run_that_cannot_be_read_hides_no_other(results, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(find, "PUBLISHED", tmp_path)  # of all runs, those that were made here
    shutil.copytree(results, tmp_path / "results")
    own = {run.id for run in bepo.load("explored", results=results).stored}
    strange = next((tmp_path / "results" / "runs").iterdir())
    (strange / "run.json").unlink()
    write_sealed(strange / "config.json", {"credit": {}, "seed": 0})
    others = {run.id for run in bepo.load(results=tmp_path / "results").stored}
    assert others and strange.name not in others
    assert main([f"--results={tmp_path / 'results'}", "--no-open"]) == 0
    assert main([next(iter(others)), "--episode=3", f"--results={tmp_path / 'results'}", "--no-open"]) == 2
    printed = capsys.readouterr()
    assert printed.err.count(f"left out: {strange}: its config has no env.name") == 2
    assert strange.name not in Path(printed.out.strip()).read_text(encoding="utf-8")
    assert {run.id for run in bepo.load("explored", results=tmp_path / "results").stored} == others & own
    damaged = next((tmp_path / "results" / "studies" / "explored").glob("*/*.json"))
    damaged.write_text("{", encoding="utf-8")
    assert len(bepo.load("explored", results=tmp_path / "results").stored) < len(own)
    assert f"left out: {damaged}" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"unknown tier 'huge'; choices: .*smoke"):
        bepo.load(results=results, tier="huge")


def test_tables_are_written_as_parquet_and_read_back(results, tmp_path):
    runs = bepo.load("explored", results=results)
    folder = runs.to_parquet(tmp_path / "tables")
    for name in ("runs", "metrics", "episodes", "transcripts"):
        table, found = getattr(runs, name), pd.read_parquet(folder / f"{name}.parquet")
        assert list(found.columns) == list(table.columns) and len(found) == len(table) > 0
        assert found["run"].tolist() == table["run"].tolist()
    found = pd.read_parquet(folder / "episodes.parquet")
    assert found["success"].tolist() == runs.episodes["success"].tolist()
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match="file: cannot be written"):
        runs.to_parquet(tmp_path / "file")


def test_columns_of_several_types_are_texts():
    table = pd.DataFrame({"a": [1, "null", None], "b": [[1], [2, 3], []], "c": [1.0, 2.0, 3.0]})
    found = _storable(table)
    assert found["a"].tolist()[:2] == ["1", '"null"'] and found["b"].tolist() == ["[1]", "[2, 3]", "[]"]
    assert found["c"].tolist() == [1.0, 2.0, 3.0]
