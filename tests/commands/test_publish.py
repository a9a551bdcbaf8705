"""Runs are published, checked and trained again."""

import json
import shutil

import optuna
import pytest

from bepo import publish, verify
from bepo.core.errors import UserError
from bepo.runs import session
from bepo.runs.compare import differences, differences_of_first_update, prediction_interval
from bepo.runs.compose import config_of, register_configs
from bepo.runs.config import identity_of
from bepo.runs.train import train as train_run
from bepo.store import find
from bepo.store.archive import read_archive, write_archive
from bepo.store.files import digest_of_file
from bepo.store.folders import digests_of_folder, seal_folder
from bepo.store.json_files import read_sealed, with_digest, write_sealed
from bepo.store.published import PUBLISHED, TRIALS, PublishedRuns
from bepo.store.run_files import RUN, read_run
from bepo.store.runs import run_id
from bepo.sweep import plan
from bepo.sweep.__main__ import main as sweep
from bepo.sweep.plan import plan_cells
from bepo.sweep.studies import Cell
from bepo.sweep.trials import RUNS
from bepo.training import warm_start
from tests.command import SMALLEST, python

pytestmark = [pytest.mark.slow, pytest.mark.long]  # these train
CLEAN = {"commit": "c" * 40, "dirty": False}
FIT = [f"policy.warm_start.{s}" for s in ("episodes=4", "max_steps=1", "check_every=1", "batch_size=4")]
WARM = [*(override for override in SMALLEST if "warm_start" not in override), *FIT]


def train(results, varying, *overrides):
    """Train a cell of main_sokoban_text from sources that a commit has."""
    register_configs()
    overrides = ["tier=smoke", varying, *overrides, f"results={results}"]
    (planned,) = plan_cells([Cell("main_sokoban_text", overrides, [varying])])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "SOURCE", CLEAN)
        train_run(planned.config, overrides)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two training seeds of a cell of main_sokoban_text."""
    path = tmp_path_factory.mktemp("results")
    for seed in (0, 1):
        train(path, f"seed={seed}", "credit=grpo", *SMALLEST, "updates=2")
    return path


@pytest.fixture
def published(results, tmp_path):
    arguments = ["--tier", "smoke", "--to", str(tmp_path)]
    assert publish.main([str(results), *arguments]) == 0
    return tmp_path


def test_gated_bepos_first_seed_keeps_its_policy(results, tmp_path, monkeypatch, capsys):
    """It is found by its id, in a folder without runs; a changed one is refused."""
    shutil.copytree(results, tmp_path / "r")
    train(tmp_path / "r", "credit=gated_bepo", "seed=0", *SMALLEST, "updates=1")
    arguments = ["--tier", "smoke", "--to", str(tmp_path / "p")]
    assert publish.main([str(tmp_path / "r"), *arguments]) == 0
    (run_id_,) = PublishedRuns(tmp_path / "p" / "smoke").with_policy()
    monkeypatch.setattr(find, "PUBLISHED", tmp_path / "p")
    run = find.find_run(run_id_, tmp_path / "none")
    kept = read_run(tmp_path / "r" / "runs" / run_id_)
    assert run.config["credit"]["name"] == "gated_bepo"
    assert digests_of_folder(run.policy()) == digests_of_folder(kept.policy())
    (other, *_) = (r for r in runs_of(tmp_path / "p") if r.id != run_id_)
    with pytest.raises(UserError, match=f"its policy is not published; choices: {run_id_}"):
        other.policy()
    weights = run.policy() / "model.safetensors"
    weights.write_bytes(b"x" + weights.read_bytes()[1:])
    assert publish.main(arguments) == 2 and "model.safetensors: changed" in capsys.readouterr().err


def test_the_larger_models_policy_is_not_kept(tmp_path):
    results = tmp_path / "r"
    train(results, "model=large", "credit=gated_bepo", "seed=0", *SMALLEST, "policy.hidden_size=40", "updates=1")
    assert publish.main([str(results), "--tier", "smoke", "--to", str(tmp_path / "p")]) == 0
    folder = PublishedRuns(tmp_path / "p" / "smoke")
    assert folder.ids() and not folder.with_policy()


def runs_of(published):
    folder = PublishedRuns(published / "smoke")
    return sorted(map(folder.run, folder.ids()), key=lambda run: run.config["seed"])


def test_published_runs_are_the_runs(results, published):
    folder = PublishedRuns(published / "smoke")
    first, second = runs_of(published)
    assert folder.studies() == ["main_sokoban_text"]
    assert {cell["run_id"] for cell in folder.cells("main_sokoban_text")} == {first.id, second.id}
    assert first.rollouts() and first.transcripts() and not second.rollouts() and not second.transcripts()
    rows = [
        json.loads(line)
        for line in (results / "runs" / second.id / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert second.metrics() == rows
    assert run_id(identity_of(config_of(first.config))) == first.id


def test_the_commits_of_the_runs_are_noted_and_checked(published, capsys):
    path = published / "smoke" / "published.json"
    noted = json.loads(path.read_text(encoding="utf-8"))
    assert noted["commits"] == {"sokoban small": [CLEAN["commit"]]}
    path.write_text(json.dumps({**noted, "commits": {}}), encoding="utf-8")
    assert publish.main(["--tier", "smoke", "--to", str(published)]) == 2
    assert "published.json: lists other commits" in capsys.readouterr().err


def test_publishing_again_changes_nothing(results, published):
    def contents():
        return {path: path.read_bytes() for path in published.rglob("*") if path.is_file()}

    before = contents()
    assert publish.main([str(results), "--tier", "smoke", "--to", str(published)]) == 0
    assert contents() == before


def test_trials_of_the_tier_are_published_with_their_runs(results, tmp_path, capsys):
    shutil.copytree(results, tmp_path / "results")
    storage, runs = f"sqlite:///{tmp_path}/results/{TRIALS}", [path.name for path in (results / "runs").glob("*")]

    def add(name, value):
        study = optuna.create_study(study_name=name, storage=storage, direction="maximize", load_if_exists=True)
        study.add_trial(optuna.trial.create_trial(value=value, user_attrs={RUNS: runs}))

    def stored():
        storage = f"sqlite:///{tmp_path}/published/smoke/{TRIALS}"
        return {
            s.study_name: [t.value for t in s.trials]
            for s in (optuna.load_study(study_name=n, storage=storage) for n in optuna.get_all_study_names(storage))
        }

    arguments = [str(tmp_path / "results"), "--tier", "smoke", "--to", str(tmp_path / "published")]
    add("tune.webshop.smoke", 0.5)
    add("tune.webshop.laptop", 0.1)
    assert publish.main(arguments) == 0 and stored() == {"tune.webshop.smoke": [0.5]}
    database = tmp_path / "published" / "smoke" / TRIALS
    before = database.read_bytes()
    assert publish.main(arguments) == 0 and database.read_bytes() == before
    add("tune.webshop.smoke", 0.75)
    assert publish.main(arguments) == 0 and stored() == {"tune.webshop.smoke": [0.5, 0.75]}
    (tmp_path / "published" / "smoke" / f"{runs[0]}.zip").unlink()
    capsys.readouterr()
    assert publish.main(arguments[1:]) == 2
    assert f"tune.webshop.smoke, trial 1: run {runs[0]} is missing" in capsys.readouterr().err
    database.write_text("junk", encoding="utf-8")
    assert publish.main(arguments[1:]) == 2 and "not an Optuna database" in capsys.readouterr().err


def test_a_sweep_skips_published_runs_and_their_new_cells_are_published(published, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(plan, "PUBLISHED", published)
    overrides = ["tier=smoke", "credit=grpo", *SMALLEST, "updates=2", f"results={tmp_path / 'new'}"]
    study = ["component_ablation", "env=sokoban", "model=small"]
    assert sweep([*study, *overrides, "seed=0,1"]) == 0
    assert "2 runs are published" in capsys.readouterr().out and not (tmp_path / "new" / "runs").exists()
    assert publish.main([str(tmp_path / "new"), "--tier", "smoke", "--to", str(published)]) == 0
    folder = PublishedRuns(published / "smoke")
    assert {cell["run_id"] for cell in folder.cells("component_ablation")} == set(folder.ids())


def test_a_run_of_uncommitted_sources_is_left_out(results, tmp_path, capsys):
    shutil.copytree(results, tmp_path / "r")
    for path in tmp_path.glob("r/runs/*/run.json"):
        metadata = read_sealed(path, "run file")
        metadata["sessions"][0]["dirty"] = True
        write_sealed(path, metadata)
    assert publish.main([str(tmp_path / "r"), "--tier", "smoke", "--to", str(tmp_path / "p")]) == 0
    assert capsys.readouterr().err.count("uncommitted sources") == 2
    assert not PublishedRuns(tmp_path / "p" / "smoke").ids()


def test_what_is_wrong_with_published_runs_is_named(published, capsys):
    first, second = runs_of(published)
    first.path.unlink()
    second.path.write_bytes(second.path.read_bytes()[:-100])
    assert publish.main(["--tier", "smoke", "--to", str(published)]) == 2
    err = capsys.readouterr().err
    assert f"run {first.id} of a study's cell is missing" in err
    assert f"{second.path}: not an archive of a run" in err and "Traceback" not in err


def test_a_cell_that_points_at_another_run_is_named(published, capsys):
    (path,) = (published / "smoke" / "studies").glob("*.json")
    cells = json.loads(path.read_text(encoding="utf-8"))
    first, second = cells["cells"]
    first["run_id"], second["run_id"] = second["run_id"], first["run_id"]
    path.write_text(json.dumps(cells), encoding="utf-8")
    assert publish.main(["--tier", "smoke", "--to", str(published)]) == 2
    err = capsys.readouterr().err
    for cell in (first, second):
        assert f"points at run {cell['run_id']}, whose seed is " in err


def test_a_published_run_trains_to_the_same_numbers(published, capsys):
    run, _ = runs_of(published)
    arguments = ["--tier", "smoke", "--published", str(published)]
    assert verify.main([run.id, *arguments]) == 0
    assert "the same over 2 updates, compared bit for bit" in capsys.readouterr().out
    assert verify.main([run.id[:8], *arguments, "--updates", "1"]) == 0
    assert "the same over 1 updates" in capsys.readouterr().out
    assert verify.main([*arguments, "--twice", "--updates", "1"]) == 0


@pytest.fixture(scope="module")
def warm_started(tmp_path_factory):
    """A run that began with a warm start."""
    path = tmp_path_factory.mktemp("warm")
    train(path, "credit=grpo", "seed=0", *WARM, "updates=1")
    return path


def test_a_warm_start_is_published_with_its_run_and_trained_from(warm_started, tmp_path, monkeypatch, capsys):
    arguments = ["--tier", "smoke", "--to", str(tmp_path)]
    assert publish.main([str(warm_started), *arguments]) == 0
    (start,) = PublishedRuns(tmp_path / "smoke").warm_starts()
    (run,) = runs_of(tmp_path)
    assert digests_of_folder(start) == digests_of_folder(warm_started / "warm_starts" / start.name)
    assert run.metadata["warm_start"] == {"name": start.name, "digest": digest_of_file(start / "warm_start.json")}
    monkeypatch.setattr(warm_start, "fit", None)
    assert verify.main([run.id, "--tier", "smoke", "--published", str(tmp_path)]) == 0
    weights = start / "model.safetensors"
    weights.write_bytes(b"x" + weights.read_bytes()[1:])
    capsys.readouterr()
    assert publish.main([str(warm_started), *arguments]) == 2  # the run is there, and what it names once is damaged
    err = capsys.readouterr().err
    assert err.startswith(f"error: {weights}: changed") and f"`git restore {start}`" in err and err.count("\n") == 1
    shutil.rmtree(start)
    assert publish.main(arguments) == 2 and f"{start / 'warm_start.json'}: no such file" in capsys.readouterr().err


def test_of_many_warm_starts_four_are_kept_and_the_others_are_known_by_their_digest(tmp_path, capsys):
    for seed in (103, 104):
        train(tmp_path / "r", "credit=grpo", "seed=0", *WARM, "updates=1", f"policy.warm_start.seed={seed}")
    arguments = ["--tier", "smoke", "--to", str(tmp_path / "p")]
    assert publish.main([str(tmp_path / "r"), *arguments]) == 0 == publish.main(arguments)
    (kept,) = PublishedRuns(tmp_path / "p" / "smoke").warm_starts()
    runs = {run.config["policy"]["warm_start"]["seed"]: run for run in runs_of(tmp_path / "p")}
    assert runs[103].metadata["warm_start"]["name"] == kept.name != runs[104].metadata["warm_start"]["name"]
    shutil.rmtree(kept)
    capsys.readouterr()
    assert publish.main(arguments) == 2 and kept.name in capsys.readouterr().err


def test_every_block_of_pretrained_weights_has_its_warm_start():
    """All methods of a block begin with equal weights on any kind of CPU, as paper/desktop.yaml declares."""
    published = PublishedRuns(PUBLISHED / "desktop")
    named = {published.run(run).metadata["warm_start"]["name"] for run in published.ids()}
    assert named == {path.name for path in published.warm_starts()}


def test_a_run_from_another_warm_start_is_left_out(warm_started, tmp_path, capsys):
    """As of another kind of processor: the settings are the same, the weights are not."""
    arguments = ["--tier", "smoke", "--to", str(tmp_path)]
    assert publish.main([str(warm_started), *arguments]) == 0
    folder = PublishedRuns(tmp_path / "smoke")
    (start,), (run_id_,) = folder.warm_starts(), folder.ids()
    folder.archive(run_id_).unlink()
    made_for = read_sealed(start / "warm_start.json", "warm start")
    (start / "warm_start.json").unlink()
    seal_folder(start, "warm_start.json", **{k: v for k, v in made_for.items() if k != "files"} | {"curve": []})
    assert publish.main([str(warm_started), *arguments]) == 2
    assert f"{start}: run {run_id_} has the same settings" in capsys.readouterr().err and not folder.ids()


def test_a_run_from_another_warm_start_that_is_not_kept_is_left_out(tmp_path, capsys):
    arguments = ["--tier", "smoke", "--to", str(tmp_path / "p")]
    for method in ("grpo", "rloo"):
        results = tmp_path / method
        train(results, f"credit={method}", "seed=0", *WARM, "updates=1", "policy.warm_start.seed=104")
        (folder,) = (results / "runs").iterdir()
        if method == "rloo":
            metadata = read_sealed(folder / "run.json", "run")
            metadata["warm_start"]["digest"] = "0" * len(metadata["warm_start"]["digest"])
            for name in ("run.json", ".lock"):
                (folder / name).unlink()
            seal_folder(folder, "run.json", **{k: v for k, v in metadata.items() if k != "files"})
        assert publish.main([str(results), *arguments]) == 0
    assert f"left out: run {folder.name} started from other weights than run" in capsys.readouterr().err
    assert folder.name not in PublishedRuns(tmp_path / "p" / "smoke").ids()


def test_another_number_is_found(published, capsys, monkeypatch):
    run, _ = runs_of(published)
    changed = run.metrics()
    changed[1]["train/grad_norm"] += 1e-12
    read = read_archive(run.path)
    monkeypatch.setattr(type(read), "rows", lambda self, stream: changed if stream == "metrics" else [])
    arguments = ["--tier", "smoke", "--published", str(published)]
    for how in ([], ["--twice"]):
        assert verify.main([run.id, *arguments, *how]) == 1
        out = capsys.readouterr().out
        assert "metrics, row 2: train/grad_norm is" in out and "differs over 2 updates" in out


def test_on_another_kind_of_machine_it_says_what_was_compared(published, capsys, monkeypatch):
    run, _ = runs_of(published)
    monkeypatch.setattr(verify, "same_kind", lambda *_: False)
    for how, said in (
        ([], "only 1 other published seeds"),
        (["--updates", "1"], "over 1 updates, compared on another kind of machine: the first update only"),
        (["--twice", "--updates", "1"], "compared with each other; the published run was trained on another"),
    ):
        assert verify.main([run.id, "--tier", "smoke", "--published", str(published), *how]) == 0
        assert said in capsys.readouterr().out


@pytest.mark.parametrize("error, differs", [(1e-6, 0), (1e-2, 1)])
def test_after_a_start_of_another_machine_the_first_update_must_agree(published, capsys, monkeypatch, error, differs):
    run, _ = runs_of(published)
    train = verify._train

    def from_other_weights(*arguments):
        again = train(*arguments)
        again.metadata["warm_start"] = {"digest": "other"}
        rows = again.metrics()
        rows[0]["train/grad_norm"] += error
        again.rows = lambda stream: rows if stream == "metrics" else []
        return again

    monkeypatch.setattr(verify, "_train", from_other_weights)
    assert verify.main([run.id, "--tier", "smoke", "--published", str(published), "--updates", "1"]) == differs
    assert "in the first update: the published run's start was made" in capsys.readouterr().out


def test_numbers_that_are_missing_and_other_tasks_are_differences(published):
    run, _other = runs_of(published)
    again = read_archive(run.path)
    rows = run.metrics()
    del rows[0]["train/grad_norm"]
    again.rows = lambda stream: rows if stream == "metrics" else []
    again.metadata["task_sets"]["test"]["digest"] = "other"
    found = list(differences(run, again))
    assert found[0].startswith("test tasks: ") and "metrics, row 1: train/grad_norm is None" in found[1]
    assert any(line.startswith("episodes of ") and ": 0 rows" in line for line in found)
    assert len(list(differences_of_first_update(run, again))) == 2 and not list(differences(run, run))


def test_an_evaluation_has_no_first_update(published):
    run, other = runs_of(published)
    for stored in (run, other):
        stored.rows = lambda stream: []
    assert not list(differences_of_first_update(run, other))


def test_a_result_that_its_episodes_do_not_give_is_found(published, capsys):
    run, _ = runs_of(published)
    run.metadata["result"]["success"] += 0.125
    run.read = lambda name: with_digest(run.metadata).encode() if name == RUN else read_archive(run.path).read(name)
    write_archive(run, run.path)
    assert publish.main(["--tier", "smoke", "--to", str(published)]) == 2
    assert f"{run.path}: states success " in capsys.readouterr().err


def test_what_cannot_be_verified_is_one_line(published, tmp_path, capsys):
    arguments = ["--tier", "smoke", "--published", str(published)]
    for wrong, message in (
        (["nope", *arguments], "unknown published run 'nope'; `python -m analysis runs"),
        ([*arguments, "--updates", "0"], "--updates 0: must be at least 1"),
        (["--published", str(tmp_path / "none")], "there are no published runs"),
    ):
        assert verify.main(wrong) == 2
        err = capsys.readouterr().err
        assert message in err and len(err.splitlines()) == 1


def test_prediction_interval():
    """Against scipy's definition by hand: t(0.995, 3) = 5.8409, and 1, 2, 3, 4 deviate by 1.2910."""
    low, high = prediction_interval([1, 2, 3, 4])
    assert high - 2.5 == pytest.approx(5.8409 * 1.2910 * (5 / 4) ** 0.5, rel=1e-4) and low + high == pytest.approx(5)
    with pytest.raises(ValueError, match="1 values"):
        prediction_interval([1])


def test_the_command_composes_the_cells_by_itself(tmp_path):
    """In a process of its own, without a cache: nothing else has registered the configs there."""
    done = python("-m", "bepo.publish", "--tier", "desktop", BEPO_CACHE=str(tmp_path))
    assert done.returncode == 0 and "runs, " in done.stdout, done.stderr
