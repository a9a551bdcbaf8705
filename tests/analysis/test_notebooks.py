"""The notebooks run from top to bottom, and name missing runs."""

import runpy
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import optuna
import pytest

from analysis.data.sources import Source
from analysis.figures.tuning import optuna_studies
from analysis.plots import explore, rollout_graph
from bepo.core.batch import RolloutBatch
from bepo.credit import estimators
from bepo.store.published import PUBLISHED
from tests.command import python
from tests.stored_runs import write_run

pytest.importorskip("marimo")  # of the extra [dev]

pytestmark = pytest.mark.slow

NOTEBOOKS = sorted((Path(__file__).parents[2] / "analysis" / "notebooks").glob("*.py"))
EPISODES = ("S W S A +", "S A +", "S A -", "S W -", "S W W A -")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("results")
    signals = {"credit/mass_tied_states": 0.25}
    signals |= {"credit/gate_transition_coverage": 0.5, "credit/gate_state_coverage": 0.2}
    for name, passes in (("grpo", [[1, 0, 0, 0]]), ("gated_bepo", [[1, 1, 1, 0]])):
        at = {"credit.name": name, "env.name": "webshop"}
        kept = {"000002.npz": rollout_graph.group_of(EPISODES)}
        write_run(path, "main_webshop", at, passes, metrics=signals, rollouts=kept)
    study = optuna.create_study(study_name="tune", storage=f"sqlite:///{path}/studies.db", direction="maximize")
    study.optimize(lambda t: -((t.suggest_float("x", 0, 1) - 0.3) ** 2), n_trials=5)
    return path


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda p: p.stem)
@pytest.mark.parametrize("folder", ["with runs", "empty"])
def test_runs_from_top_to_bottom(notebook, folder, results, tmp_path, monkeypatch):
    where = results if folder == "with runs" else tmp_path
    monkeypatch.setattr(sys, "argv", [str(notebook), "--results", str(where)])
    try:
        runpy.run_path(str(notebook), run_name="__main__")
    finally:
        plt.close("all")


@pytest.mark.parametrize("trials", [1, 3])
def test_a_search_with_two_objectives_has_a_picture_of_each(trials, tmp_path, monkeypatch):
    study = optuna.create_study(
        study_name="two", storage=f"sqlite:///{tmp_path}/studies.db", directions=["maximize"] * 2
    )
    study.optimize(lambda trial: (trial.suggest_float("x", 0, 1), trial.suggest_int("y", 0, 9)), n_trials=trials)
    monkeypatch.setattr(sys, "argv", ["search.py", "--results", str(tmp_path)])
    notebook = runpy.run_path(str(NOTEBOOKS[-1]))
    try:
        _, values = notebook["app"].run()
    finally:
        plt.close("all")
    assert values["names"] == ["first objective", "second objective"]


@pytest.mark.long
def test_make_writes_each_notebook_as_a_page(results):
    binaries, search = Path(sys.executable).parent, f"analysis/notebooks/{NOTEBOOKS[-1].name}"
    run = (
        "make",
        "--no-print-directory",
        "-o",
        "install",
        "notebooks",
        f"BIN={binaries}",
        f"NOTEBOOKS={search}",
        f"RESULTS={results}",
    )
    done = subprocess.run(run, cwd=NOTEBOOKS[0].parents[2], capture_output=True, encoding="utf-8")
    page = results / "views" / "notebook-search.html"
    assert done.returncode == 0 and done.stdout.split() == [str(page)], done.stdout + done.stderr
    assert page.read_text(encoding="utf-8").count("data:image/png;base64,") >= 4, (
        "history, importances, slices and parallel lines"
    )


def test_marimo_finds_nothing_wrong():
    done = python("-m", "marimo", "check", "--strict", *NOTEBOOKS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_questions_of_the_notebooks(results):
    source = Source(results)
    assert explore.studies(source) == {"main_webshop (laptop)": ("main_webshop", "laptop")}
    found = explore.runs(source, "main_webshop", "laptop")
    assert len(found) == 2 and all(explore.rollouts(run) for run in found.values())
    ours, theirs = sorted(found, key=lambda name: "GRPO" in name)
    table = explore.outcomes({n: found[n] for n in (ours, theirs)})
    assert table["success"].tolist() == [75.0, 25.0] and table["difference"][0] == 50.0
    assert "credit.name" in explore.differences(found).index
    assert "env.name" not in explore.differences(found).index
    assert (explore.degeneracy(list(found.values()))["tied_states"] == 25.0).all()
    assert len(optuna_studies(results)["tune"].trials) == 5


def test_ones_own_studies_come_first_then_the_main_tables(results):
    names = list(explore.studies(Source(results, PUBLISHED)))
    assert names[0] == "main_webshop (laptop)" and names[1].startswith("main_") and names[1].endswith(", published)")
    assert "blocks (laptop, published)" in names[2:]


def test_runs_without_a_study_can_be_chosen_and_published_runs_say_so(tmp_path):
    run = write_run(tmp_path, [], {"credit.name": "grpo"}, [[1, 0]])
    source = Source(tmp_path, PUBLISHED)
    names = list(explore.studies(source))
    assert names[0] == "runs without a study (laptop)" and all(name.endswith(", published)") for name in names[1:])
    (name,) = explore.runs(source, "", "laptop")
    assert run.id in name
    own, *others = explore.paths_by_name(tmp_path)
    assert own == run.id and others and all(other.endswith(" (published)") for other in others)


def test_sweeps_approach_the_fixed_point_below_their_certificate():
    """The values of two states that mostly follow each other are far from it after the paper's budget."""
    cycle = rollout_graph.group_of(("A B " * 25 + "+", "A B -"))
    table = rollout_graph.convergence(cycle, sweeps=1000)
    assert (table["error"] <= table["bound"].fillna(np.inf) + 1e-9).all()
    assert table["error"].iloc[20] > 1e-3 and table["error"].iloc[-1] < 1e-6
    assert table["advantage"].iloc[-1] < 1e-6


def test_one_group_of_many_keeps_its_numbers():
    both = RolloutBatch.concat([rollout_graph.group_of(EPISODES), rollout_graph.group_of(EPISODES[:3])])
    alone = rollout_graph.one_group(both, 1)
    whole = rollout_graph.advantages(both)
    own = rollout_graph.advantages(alone).items()
    for method, values in ((name, found) for name, found in own if not estimators()[name].mixes_groups):
        np.testing.assert_allclose(values, whole[method][both.group == 1], atol=1e-12)
    assert len(rollout_graph.transition_table(alone)) == len(alone)


def test_the_viewer_begins_with_a_group_that_tells_something():
    groups = [rollout_graph.group_of(text) for text in (("S A -", "S B -"), EPISODES[:3])]
    assert next(iter(rollout_graph.tasks(RolloutBatch.concat(groups)))).startswith("1: task")
    nothing = rollout_graph.convergence_picture(rollout_graph.convergence(groups[0]))
    assert "nothing to solve" in nothing.axes[0].texts[0].get_text() and not nothing.axes[0].lines
    plt.close(nothing)
