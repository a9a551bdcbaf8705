"""Which runs an artefact is made of: members of a study, one setting a row, nothing mixed or averaged in silence."""

import json
import re
import shutil

import pytest

from analysis.__main__ import main
from analysis.data import sources
from analysis.data.rows import METHOD, RowKey, settings
from analysis.data.sources import Source, open_source
from analysis.grid.artefact import artefacts
from analysis.output import page
from analysis.output.build import LeftOut, build, write
from analysis.output.ledger import ledger
from analysis.plots import explore
from bepo.credit import estimators
from bepo.envs import environments
from bepo.runs.config import METHOD_VERSION
from bepo.store import find
from bepo.store.archive import write_archive
from bepo.store.cells import read_cell
from bepo.store.published import PublishedRuns
from bepo.store.run_files import read_run
from tests.stored_runs import rewrite, write_run
from tests.tables import artefact_of

PASSES = ((1, 0, 0, 0), (1, 1, 0, 0))


@pytest.fixture
def results(tmp_path):
    for method in ("grpo", "gated_bepo"):
        for seed in (0, 1):
            write_run(tmp_path, "s", {"credit.name": method, "seed": seed}, PASSES)
    return tmp_path


def study(results, key=METHOD, **options):
    return Source(results).study("s", "laptop", key, **options)


def test_a_study_is_what_its_cells_point_at(results):
    write_run(results, "other", {"seed": 7}, PASSES)
    found = study(results)
    assert {(r.method, r.seed) for r in found.runs} == {(m, s) for m in ("grpo", "gated_bepo") for s in (0, 1)}
    assert set(found.rows) == {"grpo", "gated_bepo"} and [r.seed for r in found.rows["grpo"]] == [0, 1]
    assert not found.skipped and not found.refused


def test_new_seeds_can_be_judged_alone(results, capsys):
    """The tables say so, and do not replace those of all runs."""
    write_run(results, "main_sokoban_text", {"credit.name": "grpo", "seed": 0}, PASSES)
    write_run(results, "main_sokoban_text", {"credit.name": "grpo", "seed": 9}, PASSES)
    found = Source(results, seeds=range(8, 12)).study("main_sokoban_text", "laptop")
    assert [run.seed for run in found.runs] == [9] and not found.skipped
    arguments = ["sokoban-text", "--results", str(results), "--source", "local", "--tier", "laptop"]
    assert main([*arguments, "--seeds", "1,8-9"]) == 0
    shown = capsys.readouterr().out
    assert "Training seeds 1, 8, 9 only." in shown and (results / "views/tables/sokoban-text.laptop.md").exists()
    assert main([*arguments, "--out", str(results / "all")]) == 0 and "Training seeds" not in capsys.readouterr().out


def test_runs_are_selected_by_their_settings(results):
    write_run(results, "s", {"env.name": "webshop", "credit.n_min": 3}, PASSES)
    found = study(results)
    assert [r.env for r in found.only(lambda run: run.env == "webshop").runs] == ["webshop"]
    assert len(found.only(lambda run: (run.env, run.model) == ("sokoban", "small")).runs) == 4
    assert found.only(lambda run: run["n_min"] == run["credit.n_min"] == 3).runs != []


def test_incomplete_corrupt_and_foreign_runs_are_named_and_left_out(results, tmp_path_factory, capsys):
    runs = sorted((results / "runs").iterdir())
    (runs[0] / "run.json").unlink()
    (runs[1] / "metrics.jsonl").write_text("", encoding="utf-8")
    rewrite(runs[2], lambda facts: facts.pop("sessions"))
    write_run(results, "other", {"seed": 9}, PASSES, tier="smoke")
    stranger = next((results / "studies" / "other" / "smoke").iterdir())
    stranger.rename(results / "studies" / "s" / "laptop" / stranger.name)
    (results / "studies" / "s" / "laptop" / "torn.json").write_text("{", encoding="utf-8")
    found = study(results)
    assert [r.id for r in found.runs] == [runs[3].name]
    reasons = "\n".join(found.skipped)
    assert f"{runs[0]}: incomplete" in reasons and f"{runs[1] / 'metrics.jsonl'}: changed" in reasons
    assert f"{runs[2]}: not a run of this bepo, it lacks 'sessions'" in reasons
    assert "its tier is smoke" in reasons and "torn.json: not a study cell" in reasons
    out = str(tmp_path_factory.mktemp("out"))
    assert main(["study", "s", "--source", "local", "--results", str(results), "--out", out]) == 0
    assert f"left out: {runs[1] / 'metrics.jsonl'}: changed" in capsys.readouterr().err
    assert main(["runs", "--results", str(results)]) == 0 and runs[2].name in capsys.readouterr().out


def test_stray_files_and_cells_are_named_or_ignored(results):
    (results / "runs" / "stray.txt").write_text("hi", encoding="utf-8")
    (results / "runs" / "junk folder").mkdir()
    (results / "studies" / "stray").write_text("hi", encoding="utf-8")
    cells = results / "studies" / "s" / "laptop"
    texts = ["nope", "[3]", "{}", "[" * 100_000 + "]" * 100_000]
    texts += [json.dumps({"run_id": name}) for name in (["a"], "../x", "..", "a\0", "stray.txt")]
    for i, text in enumerate(texts):
        (cells / f"z{i}.json").write_text(text, encoding="utf-8")
    found = study(results)
    assert len(found.runs) == 4 and len(found.skipped) == len(texts)
    assert all(f"z{i}.json" in "\n".join(found.skipped) for i in range(len(texts) - 1))
    assert list(ledger(results)["status"]) == ["empty", *["complete"] * 4]
    assert len(explore.runs(Source(results), "s", "laptop")) == 4


def test_metrics_that_are_no_numbers_are_not_logged(tmp_path):
    write_run(tmp_path, "s", {}, PASSES, metrics={"train/entropy": "high", "train/kl": None})
    (run,) = study(tmp_path).runs
    assert run.metrics["train/entropy"].isna().all() and run.metrics["train/kl"].isna().all()
    assert list(run.metrics["update"]) == [1, 2]


@pytest.mark.parametrize("broken", [((1, 0), (1,)), ()])
def test_passes_over_different_tasks_are_no_evaluation(tmp_path, broken):
    run = write_run(tmp_path, "s", {}, ((1, 0), (1, 0)))
    rows = [json.loads(line) for line in (run.path / "episodes.jsonl").read_text(encoding="utf-8").splitlines()]
    kept = [r for r in rows if r["update"] != 2 or (broken and (r["evaluation_seed"], r["task"]) != (1, "t1"))]
    (run.path / "episodes.jsonl").write_text("".join(json.dumps(r) + "\n" for r in kept), encoding="utf-8")
    rewrite(run.path, lambda facts: facts["files"].pop("episodes.jsonl"))
    found = study(tmp_path)
    assert not found.runs and "passes" in found.skipped[0]


def test_a_row_is_one_setting_and_its_newest_run_decides(results):
    old = write_run(results, "s", {"seed": 2, "credit.gate": "count_ramp"}, PASSES, started="2025-12-01")
    found = study(results)
    assert len(found.runs) == 4 and len(found.skipped) == 1
    assert str(old.path) in found.skipped[0] and "(credit.gate)" in found.skipped[0]


def test_rows_share_every_setting_but_their_methods_own(results):
    write_run(results, "s", {"credit.name": "ppo", "rollout.grouped": False}, PASSES, started="2025-12-01")
    old = write_run(results, "s", {"credit.name": "rloo", "updates": 7}, PASSES, started="2025-12-01")
    found = study(results)
    assert "ppo" in found.rows and "rloo" not in found.rows
    assert str(old.path) in found.skipped[0] and "(updates)" in found.skipped[0]
    new = write_run(results, "s", {"credit.name": "rloo", "updates": 9}, PASSES, started="2026-02-01")
    assert [r.id for r in study(results).runs] == [new.id]


def test_methods_may_have_different_losses_but_one_loss_has_one_setting(results):
    clipped = {"loss.name": "ppo_clip", "loss.ratio": "token", "loss.aggregation": "token_mean", "loss.clip_eps": 0.2}
    other = {"loss.name": "other", "loss.depth": 5}
    by_action = clipped | {"loss.ratio": "action"}
    graft = by_action | {"loss.aggregation": "sequence_mean"}
    for name, loss in {"grpo": clipped, "gagpo": by_action, "graft": graft, "rloo": other}.items():
        write_run(results, "losses", {"credit.name": name, **loss}, PASSES)
    old = {"credit.name": "gigpo", **clipped, "loss.clip_eps": 0.3}
    odd = write_run(results, "losses", old, PASSES, started="2025-12-01")
    found = Source(results).study("losses", "laptop", METHOD)
    assert set(found.rows) == {"grpo", "gagpo", "graft", "rloo"} and len(found.skipped) == 1
    assert str(odd.path) in found.skipped[0] and "(loss.clip_eps)" in found.skipped[0]


def test_environments_and_models_have_settings_of_their_own(results):
    write_run(results, "s", {"env.name": "webshop", "training.minibatch_size": 64}, PASSES)
    write_run(results, "s", {"model": "large", "policy.hidden_size": 128}, PASSES)
    found = study(results)
    assert len(found.runs) == 6 and not found.skipped


def test_rows_may_differ_in_what_the_artefact_varies(results):
    for graph_key in ("raw", "augmented"):
        write_run(results, "s", {"env.graph_key": graph_key, "env.name": "alfworld"}, PASSES)
    key = RowKey(lambda r: f"{r.method} {r['env.graph_key']}", varies=("env.graph_key",))
    assert {"gated_bepo raw", "gated_bepo augmented"} < set(study(results, key).rows)
    assert (
        len(study(results).only(lambda run: run.env == "alfworld").runs) == 1
    )  # without, they are one row of two settings


def test_settings_are_written_as_in_the_reported_tables(tmp_path):
    for n in (2, 3):
        write_run(tmp_path, "s", {"credit.n_min": n, "credit.b_min": 2, "credit.gae_lambda": 0.0}, PASSES)
    assert set(study(tmp_path, settings("n_min", "b_min")).rows) == {"n_min=2 b_min=2", "n_min=3 b_min=2"}


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"versions": {"credit": 2, "run": 1}}, "method versions"),
        ({"task_set": "d2"}, "test task sets"),
        ({"backend": "verl"}, "backends"),
    ],
)
def test_a_mixed_row_is_refused_by_name_unless_asked_for(results, change, reason):
    backend = {"backend.name": change.pop("backend")} if "backend" in change else {}
    odd = write_run(results, "s", {"credit.name": "grpo", "seed": 2, **backend}, PASSES, **change)
    found = study(results)
    ((place, why),) = found.refused.items()
    assert place == ("sokoban", "small", "grpo") and reason in why and odd.id in why
    assert set(found.rows) == {"gated_bepo"} and len(found.rows["gated_bepo"]) == 2
    assert len(study(results, allow_mixed=True).rows["grpo"]) == 3


def test_a_cell_that_was_planned_anew_points_at_its_new_run(results):
    from bepo.store.cells import note_cell

    note_cell(results, "s", "laptop", ["credit.name=grpo", "seed=0"], "newer")
    found = study(results)
    assert [r.seed for r in found.rows["grpo"]] == [1] and any("newer" in line for line in found.skipped)


def test_final_episodes_are_those_of_the_last_policy(results):
    for run in study(results).runs:
        assert list(run.metrics["update"]) == [1, 2]
        assert run.episodes["final"].sum() == 2 * 4 + 4  # two test passes and a validation pass of four tasks
        assert len(run.final) == 2 * 4


def test_tiers_come_in_order_of_meaning(results):
    write_run(results, "s", {}, PASSES, tier="smoke")
    assert Source(results).tiers() == ["smoke", "laptop"]


def publish(results, folder):
    """Publish every run of a results folder at tier laptop, and remove it there."""
    published = PublishedRuns(folder / "laptop")
    for path in sorted((results / "runs").iterdir()):
        write_archive(read_run(path), published.archive(path.name), complete=True)
    for path in sorted((results / "studies").iterdir()):
        published.note_cells(path.name, [read_cell(cell) for cell in sorted(path.glob("laptop/*.json"))])
    shutil.rmtree(results)


def test_published_runs_stand_beside_those_of_a_results_folder(tmp_path, monkeypatch):
    for seed in (0, 1):
        write_run(tmp_path / "theirs", "s", {"seed": seed}, [[1, 0]], started=f"2026-01-0{seed + 1}")
    publish(tmp_path / "theirs", tmp_path / "published")
    own = write_run(tmp_path / "mine", "s", {"seed": 2}, [[1, 1]])
    again = write_run(tmp_path / "mine", "s", {"seed": 1}, [[1, 0]], started="2026-01-02")
    monkeypatch.setattr(sources, "PUBLISHED", tmp_path / "published")

    both = open_source(tmp_path / "mine")
    found = both.study("s", "laptop").rows["gated_bepo"]
    assert [run.seed for run in found] == [0, 1, 2] and found[2].id == own.id
    assert [run.path.suffix for run in found] == [".zip", "", ""] and found[1].path == again.path  # the local one wins
    assert found[0].passes().to_numpy().tolist() == [[100, 0]] and both.tiers() == ["laptop"]
    assert both.label == f"{tmp_path / 'mine'} and {tmp_path / 'published' / 'laptop'}"
    assert len(list(both.runs())) == 3

    assert [run.seed for run in open_source(tmp_path / "mine", "local").study("s", "laptop").runs].count(0) == 0
    assert {run.seed for run in open_source(tmp_path / "mine", "published").study("s", "laptop").runs} == {0, 1}


def test_a_begun_copy_hides_no_published_run(tmp_path, monkeypatch):
    """``bepo.train`` of a published setting that was interrupted leaves a folder without run.json."""
    run = write_run(tmp_path / "theirs", "s", {"seed": 0}, [[1, 0]])
    begun = tmp_path / "mine" / "runs" / run.id
    shutil.copytree(run.path, begun)
    (begun / "run.json").unlink()
    publish(tmp_path / "theirs", tmp_path / "published")
    monkeypatch.setattr(sources, "PUBLISHED", tmp_path / "published")
    monkeypatch.setattr(find, "PUBLISHED", tmp_path / "published")
    source = open_source(tmp_path / "mine")
    assert [run.path.suffix for run in source.runs()] == [".zip"]
    assert [run.path.suffix for run in source.study("s", "laptop").runs] == [".zip"]
    assert find.find_run(run.id, tmp_path / "mine").path.suffix == ".zip"
    assert find.every_run(tmp_path / "mine")[run.id].suffix == ".zip"
    (begun.parent / "other").mkdir()
    shutil.copy(begun / "config.json", begun.parent / "other")
    assert find.every_run(tmp_path / "mine")["other"] == begun.parent / "other"  # a run that is not published is seen


def test_published_runs_decide_what_the_setting_is(tmp_path, monkeypatch):
    for seed, horizon in ((0, 9), (1, 9), (2, 7)):  # the last was published later
        at = {"seed": seed, "env.horizon": horizon}
        write_run(tmp_path / "theirs", "s", at, [[1, 0]], started=f"2026-01-0{seed + 1}")
    publish(tmp_path / "theirs", tmp_path / "published")
    for seed, horizon in ((3, 9), (4, 7)):
        write_run(tmp_path / "mine", "s", {"seed": seed, "env.horizon": horizon}, [[1, 1]], started=f"2026-02-0{seed}")
    monkeypatch.setattr(sources, "PUBLISHED", tmp_path / "published")
    found = open_source(tmp_path / "mine").study("s", "laptop")
    assert {run.seed for run in found.runs} == {0, 1, 3} and len(found.skipped) == 2
    assert all("published runs of its study (env.horizon)" in line for line in found.skipped)
    assert {run.seed for run in open_source(tmp_path / "mine", "local").study("s", "laptop").runs} == {4}


def test_a_damaged_published_run_is_named(tmp_path, monkeypatch):
    run = write_run(tmp_path / "theirs", "s", {"seed": 0}, [[1, 0]])
    publish(tmp_path / "theirs", tmp_path / "published")
    path = tmp_path / "published" / "laptop" / f"{run.id}.zip"
    path.write_bytes(path.read_bytes()[:100])
    monkeypatch.setattr(sources, "PUBLISHED", tmp_path / "published")
    study = open_source(tmp_path / "mine").study("s", "laptop")
    assert not study.runs and f"{path}: not an archive of a run" in study.skipped[0]
    (tmp_path / "published" / "laptop" / "studies" / "s.json").write_text("[]", encoding="utf-8")
    study = open_source(tmp_path / "mine").study("s", "laptop")
    assert not study.runs and "s.json: not a list of cells" in study.skipped[0]


def test_a_run_that_this_bepo_would_train_otherwise_is_shown_as_such(tmp_path):
    old = {"run": METHOD_VERSION - 1, "env": 1, "credit": estimators()["grpo"].method_version}
    run = write_run(tmp_path, "main_sokoban", {"credit.name": "grpo", "model": "vl"}, PASSES, versions=old)
    table = artefact_of(tmp_path, "sokoban-main")
    changed = ["run"] if environments()["sokoban"].method_version == 1 else ["env", "run"]
    assert (
        f"older method versions; this version would train them differently: {run.id} ({' '.join(changed)})."
        in " ".join(table.notes)
    )
    assert any(entry.reproduced for entry in table.entries)


def test_the_main_tier_is_that_of_blocks(tmp_path):
    """A study at a higher tier without the declared claims, such as desktop, does not hide them."""
    write_run(tmp_path, "desktop", {"credit.name": "grpo"}, [[1, 0]], tier="desktop")
    write_run(tmp_path, "main_sokoban", {"credit.name": "rloo"}, [[1, 0]], tier="smoke")
    source = Source(tmp_path)
    assert source.main_tier(source.tiers()) == "desktop"
    write_run(tmp_path, "blocks", {"credit.name": "gated_bepo"}, [[1, 0]], tier="laptop")
    source = Source(tmp_path)
    assert source.tiers()[-1] == "desktop" and source.main_tier(source.tiers()) == "laptop"
    assert source.main_tier(["smoke"]) == "smoke"


def test_the_report_opens_at_the_main_tier(tmp_path):
    for tier in ("laptop", "desktop"):
        write_run(tmp_path / "r", "blocks" if tier == "laptop" else "desktop", {}, [[1, 0]], tier=tier)
    source, item = Source(tmp_path / "r"), artefacts()["declared-claims"]
    built = write([build(item, source, tier) for tier in source.tiers()], tmp_path, LeftOut())
    shown = page.render(built, source.tiers(), "r", chosen=source.main_tier(source.tiers()))
    assert re.findall(r'value="(\w+)" checked', shown) == ["laptop"]
