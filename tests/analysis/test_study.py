"""Any study as table and curves, any runs as curves: rows are what varies, and nothing is hidden."""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import pytest
from scipy import stats

from analysis.__main__ import main
from analysis.data.rows import settings
from analysis.data.runs import Run
from analysis.data.sources import open_source
from analysis.grid.parts import setting_rows
from analysis.output.study import build_study, row_colours, varying
from bepo.core.errors import UserError
from bepo.explore.frames import question_of
from bepo.store.run_files import read_run
from tests.stored_runs import write_run


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A study of the user's own, of one estimator's two settings, and one of two estimators."""
    folder = tmp_path_factory.mktemp("results")
    for seed in (0, 1):
        for weight in (0.5, 2.0):
            settings = {"credit.step_weight": weight, "credit.gamma": 0.9 if weight == 2 else 0.95, "seed": seed}
            write_run(folder, "my_weights", settings, [[1, seed, weight == 2]], metrics={"train/entropy": weight})
    for credit in ("grpo", "gated_bepo"):
        write_run(folder, "my_methods", {"credit.name": credit}, [[1, 0, credit == "grpo"]])
    return folder


def built(results, name, metrics=()):
    table, *_, figure = build_study(name, open_source(results, "local"), "laptop", metrics)
    plt.close(figure.product.figure)
    return table.table


def test_a_tier_without_runs_of_the_study_has_no_say_about_metrics(results):
    source = open_source(results, "local")
    assert build_study("my_weights", source, "smoke", ["train/entropy"]) == []
    with pytest.raises(UserError, match=r"unknown metric 'train/entropie'.*did you mean train/entropy"):
        build_study("my_weights", source, "laptop", ["train/entropie"])


def test_rows_of_ones_own_study_have_paired_differences_with_intervals(tmp_path):
    trained = {"grpo": [0.2, 0.5, 0.3], "gated_bepo": [0.3, 0.7, 0.6]}
    for credit, rates in trained.items():
        for seed, rate in enumerate(rates):
            settings = {"credit.name": credit, "seed": seed}
            write_run(tmp_path, "mine", settings, [[1, credit == "grpo", 0, 0]], metrics={"train/success": rate})
    write_run(tmp_path, "mine", {"credit.name": "rloo", "seed": 9}, [[1, 0, 0, 0]])  # shares no seed
    _, other, figure = build_study("mine", open_source(tmp_path, "local"), "laptop")
    plt.close(figure.product.figure)
    told = stats.ttest_1samp([10, 20, 30], 0).confidence_interval(0.95)
    assert other.label == "study-mine-differences"
    assert [[cell.text for cell in row] for row in other.table.rows] == [
        ["sokoban", "small", "RLOO − GRPO", "0", "–", "–"],
        ["sokoban", "small", "Gated-BEPO − GRPO", "3", f"20.0 [{told.low:.1f}, {told.high:.1f}]", "-25.0"],
    ]


def test_identical_rows_are_named(tmp_path):
    for seed in (0, 1):
        for n_min, solved in ((1, 1), (2, 1), (3, 0)):
            settings = {"credit.n_min": n_min, "seed": seed}
            write_run(tmp_path, "mine", settings, [[1, solved]], metrics={"train/success": 0.1 + seed})
    (note,) = [text for text in built(tmp_path, "mine").notes if "Identical" in text]
    assert note == "Identical in every update and every episode: n_min=1 and n_min=2."


def test_rows_are_the_fewest_settings_that_tell_them_apart(results):
    runs = [Run(read_run(path.parent)) for path in results.glob("runs/*/run.json")]
    mine = [run for run in runs if run["step_weight"] is not None]
    assert varying(mine) == (["credit.gamma", "credit.step_weight"], ["credit.gamma"])  # step_weight says the same
    assert varying([run for run in runs if run["step_weight"] is None])[1] == ["credit.name"]


def test_a_row_may_differ_in_several_settings_outside_its_method(tmp_path):
    for changed in (
        {},
        {"training.kl_coef": 0.5, "training.epochs": 2},
        {"loss.name": "dapo", "training.kl_coef": 0.0},
    ):
        write_run(tmp_path, "whole", {"credit.name": "grpo"} | changed, [[1, 0]])
    rows = [[row[0].text, row[-1].text] for row in built(tmp_path, "whole").rows]
    assert len(rows) == 3 and any(row[0].startswith("loss=dapo") for row in rows), rows


def test_a_preset_of_another_paper_has_its_name(tmp_path):
    for changed in ({"credit.name": "grpo", "credit.progress": 0.3}, {"credit.name": "rloo"}):
        write_run(tmp_path, "mine", changed, [[1, 0]])
    assert [row[0].text for row in built(tmp_path, "mine").rows] == ["RLOO", "ProGPOʳ"]


def test_settings_that_follow_the_training_seed_do_not_split_rows(tmp_path):
    for seed in (0, 1):
        for credit in ("grpo", "gated_bepo"):
            settings = {"seed": seed, "policy.seed": seed, "policy.warm_start.seed": seed, "credit.name": credit}
            write_run(tmp_path, "blocks", settings, [[1, 0]])
    assert [[row[0].text, row[-1].text] for row in built(tmp_path, "blocks").rows] == [
        ["GRPO", "2×1"],
        ["Gated-BEPO", "2×1"],
    ]
    for seed in (0, 1):
        write_run(tmp_path, "starts", {"policy.warm_start.seed": seed}, [[1, 0]])
    assert [row[0].text for row in built(tmp_path, "starts").rows] == ["warm_start.seed=0", "warm_start.seed=1"]


def test_settings_that_only_environments_differ_in_name_no_row(tmp_path):
    for env, constrained in (("sokoban", False), ("webshop", True)):
        for weight in (0.5, 2.0):
            settings = {"env.name": env, "policy.constrained": constrained, "credit.step_weight": weight}
            write_run(tmp_path, "weights", settings, [[1, 0]])
    rows = [row[0].text for row in built(tmp_path, "weights").rows]
    assert rows == 2 * ["step_weight=0.5", "step_weight=2.0"]


def test_the_caption_has_the_question_of_the_study(tmp_path):
    own, other = ({"study": {"name": name, "question": f"Does {name} help?"}} for name in ("it", "another"))
    assert question_of("it", [{}, other, own]) == "Does it help?" and question_of("it", [other]) == ""
    write_run(tmp_path, "mine", {"study": own["study"] | {"name": "mine"}}, [[1, 0]])
    assert built(tmp_path, "mine").caption.startswith("Study mine (tier laptop). Does it help? Mean over")


def test_a_table_has_no_columns_of_reported_numbers(results):
    table = built(results, "my_weights")
    assert table.names == ["Setting", "Success", "Seeds"]
    assert [row[0].text for row in table.rows] == ["gamma=0.9", "gamma=0.95"]
    assert [row[1].text for row in table.rows] == ["83.33 ± 23.57†", "50.00 ± 23.57"]


def test_metrics_are_columns_of_episodes_or_what_was_logged(results):
    table = built(results, "my_weights", ["score", "train/entropy"])
    assert table.names == ["Setting", "Success", "Score", "train/entropy", "Seeds"]
    assert [row[3].value.mean for row in table.rows] == [2.0, 0.5]
    with pytest.raises(UserError, match=r"unknown metric 'train/nothing'; choices: .*train/entropy"):
        built(results, "my_weights", ["train/nothing"])


def test_returns_are_no_shares(results):
    run = Run(read_run(next(results.glob("runs/*/run.json")).parent))
    run.episodes["return"] = 7.5
    assert (run.passes("return").to_numpy() == 7.5).all() and run.passes("success").to_numpy().max() == 100


def test_colours_are_distinct_where_one_method_has_many_rows():
    rows = [f"gated_bepo w={i}" for i in range(12)]
    assert len(set(row_colours(rows).values())) == 12
    assert row_colours(["gated_bepo", "grpo"])["gated_bepo"] == "#D55E00"
    assert len(set(row_colours([f"gated_bepo w={i}" for i in range(40)]).values())) == 40


def test_the_commands_write_files_and_name_them(results, tmp_path, capsys):
    place = ["--results", str(results), "--out", str(tmp_path), "--source", "local"]
    assert main(["study", "my_methods", *place]) == 0
    out = capsys.readouterr().out
    assert "Gated-BEPO" in out and "Reported" not in out
    for path in ("tables/study-my_methods.laptop.md", "figures/study-my_methods-curves.laptop.png"):
        assert (tmp_path / path).exists() and path in out
    assert main(["study", "my_methods", "--results", str(results), "--source", "local"]) == 0
    assert (results / "views" / "tables" / "study-my_methods.laptop.md").exists()  # not in paper/
    run = next(results.glob("runs/*"))
    assert main(["curves", run.name, "my_methods", "--metric", "train/success", *place]) == 0
    assert list(tmp_path.glob("curves-*.png")) and "curves-" in capsys.readouterr().out
    assert main(["curves", run.name, *place[:2]]) == 0 and list((results / "views").glob("curves-*.png"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["study"], "my_methods, my_weights"),
        (["study", "none"], "unknown study with runs 'none'; choices: my_methods, my_weights"),
        (["curves"], "python -m analysis runs"),
        (["curves", "my_methods", "--metric", "x"], "unknown metric 'x'"),
    ],
)
def test_a_mistake_gets_one_line(results, capsys, arguments, message):
    assert main([*arguments, "--results", str(results), "--source", "local"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "name, values, rows",
    [
        ("loss.dual_clip", [3.0, None, 1.5], ["dual_clip=1.5", "dual_clip=3.0", "dual_clip=null"]),
        ("credit.iterations", [20, 3, 10, 0], ["iterations=0", "iterations=3", "iterations=10", "iterations=20"]),
        (
            "training.learning_rate",
            [0.001, 1e-06, 0.0005],
            ["learning_rate=1e-06", "learning_rate=0.0005", "learning_rate=0.001"],
        ),
        ("env.task_types", [["b", "a"], ["a"]], ['task_types=["a"]', 'task_types=["b","a"]']),
        ("policy.path", ["a dir/10", "a dir/9"], ["path=a\xa0dir/9", "path=a\xa0dir/10"]),
    ],
)
def test_rows_of_a_setting_are_in_the_order_of_its_values(tmp_path, name, values, rows):
    for value in values:
        write_run(tmp_path, "my_values", {name: value}, [[1, 0, 0]])
    assert [row[0].text for row in built(tmp_path, "my_values").rows] == rows


def test_rows_of_the_papers_settings_are_in_the_order_of_their_values():
    written = ["x=20", "x=3", "x=1e-06", "x=0", "x=null", "x=soft_k10", "x=soft_k3", "x=[10,2]", "x=[9,2]"]
    expected = ["x=0", "x=1e-06", "x=3", "x=20", "x=[9,2]", "x=[10,2]", "x=null", "x=soft_k3", "x=soft_k10"]
    rows = setting_rows(("x",), lambda values: [values["x"]])
    assert rows.order(written) == expected
    run = SimpleNamespace(written={"n_min": "null", "a": "[1,2]"}.get)
    assert settings("n_min", "a").row(run) == "n_min=null a=[1,2]"
