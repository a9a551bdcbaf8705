"""Pictures of Optuna studies, from a database with known answers."""

from itertools import pairwise

import optuna
import pytest
from optuna.trial import TrialState

from analysis.data.sources import Source
from analysis.figures.tuning import optuna_studies
from analysis.grid.artefact import artefacts
from analysis.output.build import build
from bepo.runs.trials_database import opened
from tests.tables import artefact_of

pytestmark = pytest.mark.long


@pytest.fixture
def results(tmp_path):
    """Ten trials in which only ``x`` matters, one of them pruned; and three with two objectives."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = f"sqlite:///{tmp_path}/studies.db"
    space = {name: optuna.distributions.FloatDistribution(0, 1) for name in ("x", "y")}

    def add(name, directions, trials, objectives):
        study = optuna.create_study(storage=storage, study_name=name, directions=directions)
        study.set_user_attr("objectives", objectives)
        study.add_trials(optuna.create_trial(distributions=space, **trial) for trial in trials)

    params = [{"x": i / 10, "y": (7 * i % 10) / 10} for i in range(10)]
    known = [{"params": p, "value": p["x"]} for p in params[:9]]
    pruned = {"params": params[9], "state": TrialState.PRUNED, "intermediate_values": {0: 0.1}}
    add("tune_gated_bepo.webshop.smoke", ["maximize"], [*known, pruned], ["validation_success"])
    both = [{"params": p, "values": [p["x"], p["y"]]} for p in params[:3]]
    objectives = ["validation_success", "training_seconds"]
    add("tune_success_and_time.webshop.smoke", ["maximize", "minimize"], both, objectives)
    add("tune_gated_bepo.webshop.laptop", ["maximize"], [], ["validation_success"])
    return tmp_path


def test_history(results):
    found = artefact_of(results, "optuna-history", "smoke")
    assert "9 complete, 1 pruned trials" in found.caption and "laptop" not in found.caption
    first, second = found.figure.axes
    best = {line.get_label(): list(line.get_ydata()) for line in first.lines}["best so far"]
    assert best == pytest.approx([10 * i for i in range(9)])
    assert first.get_ylabel() == "Validation success (%)" and second.get_xlabel() == "Training seconds"
    assert "Optuna studies of validation success (tier smoke)" in found.caption
    assert "no trials yet" in artefact_of(results, "optuna-history", "paper").figure.axes[0].texts[0].get_text()


@pytest.mark.parametrize("label", ["history", "importance", "parallel", "slice", "contour"])
def test_a_study_of_another_objective_is_named_by_it(tmp_path, label):
    """The trials are in a journal."""
    journal = opened(f"{tmp_path}/trials.journal")
    study = optuna.create_study(study_name="returns.sokoban.smoke", storage=journal, direction="maximize")
    study.set_user_attr("objectives", ["train/return"])
    space = {name: optuna.distributions.FloatDistribution(0, 1) for name in ("x", "y")}
    for i in range(20):
        params = {"x": i / 20, "y": (7 * i % 20) / 20}
        study.add_trial(optuna.create_trial(params=params, distributions=space, value=params["x"]))
    found = artefact_of(tmp_path, f"optuna-{label}", "smoke")
    texts = [axis.get_ylabel() for axis in found.figure.axes]
    assert "train/return (tier smoke)" in found.caption and "success" not in found.caption + " ".join(texts)
    assert label == "importance" or "Train/return" in texts


def test_conditional_settings_are_compared_too(tmp_path):
    """Only ``y`` matters, which half of the trials search."""
    study = optuna.create_study(
        storage=f"sqlite:///{tmp_path}/studies.db", study_name="tune_every_axis.webshop.smoke", direction="maximize"
    )
    study.set_user_attr("objectives", ["validation_success"])
    space = {name: optuna.distributions.FloatDistribution(0, 1) for name in ("x", "y")}
    for i in range(40):
        names = ["x", "y"] if i % 2 else ["x"]
        params = {name: (i * 7 + 3 * k) % 40 / 40 for k, name in enumerate(names)}
        own = {name: space[name] for name in names}
        study.add_trial(optuna.create_trial(params=params, distributions=own, value=params.get("y", 0.0)))
    optuna.create_study(storage=f"sqlite:///{tmp_path}/studies.db", study_name="of.my_own").add_trial(
        optuna.create_trial(params={"z": 0.5}, distributions={"z": space["x"]}, value=0.5)
    )
    found = artefact_of(tmp_path, "optuna-importance", "smoke")
    assert any("of.my_own (1)" in note for note in found.notes)  # studies of any name are shown
    (axis,) = found.figure.axes
    widths = {t.get_text(): p.get_width() for t, p in zip(axis.get_yticklabels(), axis.patches)}
    assert widths["y"] > widths["x"]
    assert "tune_every_axis.webshop.smoke: PED-ANOVA, because it has conditional settings." in found.notes


@pytest.mark.slow
def test_importance(results):
    found = artefact_of(results, "optuna-importance", "smoke")
    assert not found.figure.axes[0].patches
    names = "tune_gated_bepo.webshop.smoke (9), tune_success_and_time.webshop.smoke (3)"
    assert f"Not shown, because shares are unstable below 20 complete trials: {names}." in found.notes


@pytest.mark.parametrize("label", ["history", "parallel", "slice", "contour"])
def test_texts_of_neighbours_do_not_overlap(results, label):
    figure = artefact_of(results, f"optuna-{label}", "smoke").figure
    figure.draw_without_rendering()
    boxes = [axis.title.get_window_extent() for axis in figure.axes if axis.get_visible() and axis.get_title()]
    boxes += [axis._left_title.get_window_extent() for axis in figure.axes if axis.get_title(loc="left")]
    assert len(boxes) == (3 if label == "slice" else 2)  # slices of each objective
    assert not any(one.overlaps(other) for one, other in pairwise(boxes))


def test_lines_slices_and_contours_show_every_complete_trial(results):
    first = artefact_of(results, "optuna-parallel", "smoke").figure.axes[0]
    assert len(first.lines) == 9 and [t.get_text() for t in first.get_xticklabels()] == ["x", "y"]
    slices = artefact_of(results, "optuna-slice", "smoke").figure.axes
    assert [axis.get_xlabel() for axis in slices] == ["x", "y"] * 3  # one objective in one study, two in the other
    assert sorted(y for _, y in slices[0].collections[0].get_offsets()) == pytest.approx([10 * i for i in range(9)])
    contour = artefact_of(results, "optuna-contour", "smoke").figure.axes[0]
    assert (contour.get_xlabel(), contour.get_ylabel()) == ("x", "y")
    assert len(contour.collections[-1].get_offsets()) == 9


@pytest.mark.parametrize(
    "name, text", [("studies.db", "junk"), ("a.journal", "[1, 2]\n"), ("a.journal", '{"op_code": 99}\n')]
)
def test_what_is_no_database_is_named_and_left_alone(name, text, tmp_path):
    (tmp_path / name).write_text(text, encoding="utf-8")
    found = build(artefacts()["optuna-history"], Source(tmp_path), "smoke")
    assert any(f"{name}: not an Optuna database" in line for line in found.skipped)
    assert "No study has a trial yet." in found.product.caption
    (tmp_path / name).unlink()
    (tmp_path / "studies.db").write_text("", encoding="utf-8")
    assert optuna_studies(tmp_path) == {} and not (tmp_path / "studies.db").read_text(encoding="utf-8")


def test_published_trials_are_drawn_and_local_ones_count(tmp_path):
    for folder, values in (("published/smoke", (0.1, 0.2)), ("local", (0.3,))):
        (tmp_path / folder).mkdir(parents=True)
        storage = f"sqlite:///{tmp_path / folder}/studies.db"
        study = optuna.create_study(study_name="tune_gated_bepo.webshop.smoke", storage=storage, direction="maximize")
        for value in values:
            study.add_trial(optuna.trial.create_trial(value=value))
    item, published = artefacts()["optuna-history"], tmp_path / "published"
    assert "2 complete" in item.build(item.load(Source(tmp_path / "nothing", published), "smoke")).caption
    assert "1 complete" in item.build(item.load(Source(tmp_path / "local", published), "smoke")).caption
