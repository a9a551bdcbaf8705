"""A table or figure that cannot be made is left out with a line. All others are written."""

import math
from dataclasses import replace

import optuna
import pytest
from matplotlib.figure import Figure as Picture

from analysis.__main__ import main
from analysis.claims.entries import OfEntries
from analysis.grid import artefact
from analysis.grid.artefact import REGISTRY, artefacts
from analysis.grid.table import Figure
from analysis.output import page
from bepo.core.errors import UserError
from bepo.store.cells import note_cell
from tests.stored_runs import write_run
from tests.tables import artefact_of

pytestmark = pytest.mark.slow  # some seventy artefacts
TABLE, FIGURE = "estimators", "credit-comparison"  # two that need no runs
OTHERS = {TABLE: "tables/estimators.smoke.md", FIGURE: "figures/credit-comparison.smoke.png"}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("results")
    for seed in (0, 1):
        at = {"env.name": "alfworld", "credit.name": "grpo", "seed": seed}
        write_run(path, "main_alfworld", at, [[1, 0], [1, 1]], tier="smoke", metrics={"train/success": 0.25})
    return path


def fails(monkeypatch, label, error=None):
    """Let the builder of an artefact raise an error."""

    def build(studies):
        raise error or ZeroDivisionError("odd\nvalue \x1b[31m")

    for known in (REGISTRY, artefact.REGISTRY):
        monkeypatch.setitem(known, label, replace(known[label], build=build))
    artefact._table.cache_clear()


@pytest.fixture
def few(monkeypatch):
    """A few tables and figures are all that is made; claims see the other tables too."""
    labels = ("main-results", "qwen3-results", "lab-claims", TABLE, "alfworld-success-curves", FIGURE)
    monkeypatch.setattr(artefact, "REGISTRY", {label: REGISTRY[label] for label in labels})


def analysed(results, out, *labels):
    return main([*labels, "--results", str(results), "--source", "local", "--tier", "smoke", "--out", str(out)])


@pytest.mark.parametrize("of_claims", [False, True])  # claims need the numbers of the other tables
def test_an_error_in_any_of_them_is_one_line(of_claims, results, tmp_path, monkeypatch, capsys):
    known = {label: isinstance(item, OfEntries) for label, item in artefacts().items() if label not in OTHERS}
    odd = [label for label, needs_others in known.items() if needs_others == of_claims]
    for label in odd:
        fails(monkeypatch, label)
    assert analysed(results, tmp_path, *odd, *OTHERS) == 1
    out, err = capsys.readouterr()
    told = [f"left out: {label} (tier smoke): ZeroDivisionError: odd value  [31m" for label in odd]
    assert err.splitlines()[: len(odd)] == told
    assert "Traceback" not in out + err and all((tmp_path / name).exists() for name in OTHERS.values())
    assert {path.name.partition(".")[0] for path in tmp_path.glob("*/*")} == {*OTHERS}


@pytest.mark.parametrize("odd, other", [(TABLE, FIGURE), (FIGURE, TABLE), ("main-results", "claims")])
def test_what_reads_an_odd_artefact_is_made(odd, other, results, tmp_path, monkeypatch, capsys):
    fails(monkeypatch, odd)
    assert analysed(results, tmp_path, odd, other) == 1
    assert f"left out: {odd} (tier smoke)" in capsys.readouterr().err
    assert [path.name for path in tmp_path.glob(f"*/{other}.smoke.tex")] == [f"{other}.smoke.tex"]


@pytest.mark.parametrize("error", [UserError("odd"), OSError("odd"), KeyError("odd"), SystemExit("odd")], ids=repr)
def test_errors_of_all_kinds_are_lines(error, results, tmp_path, monkeypatch, capsys):
    fails(monkeypatch, FIGURE, error)
    assert analysed(results, tmp_path, TABLE, FIGURE) == 1
    assert f"left out: {FIGURE} (tier smoke): " in capsys.readouterr().err


def test_alone_it_is_bad_input_or_an_error(results, tmp_path, monkeypatch, capsys):
    fails(monkeypatch, TABLE, UserError("odd"))
    assert analysed(results, tmp_path, TABLE) == 2
    assert "error: odd" in capsys.readouterr().err


@pytest.mark.parametrize("text", [r"\frac{", "\ud800"], ids=["brace", "surrogate"])
def test_a_picture_that_cannot_be_drawn_is_left_out_when_it_is_written(text, results, tmp_path, monkeypatch, capsys):
    picture = Picture()
    picture.suptitle(f"${text}$")
    monkeypatch.setitem(REGISTRY, FIGURE, replace(REGISTRY[FIGURE], build=lambda _: Figure("", picture, [])))
    second = "method-overview"
    assert analysed(results, tmp_path, FIGURE, second, TABLE) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"left out: {FIGURE} (tier smoke): ") and "Traceback" not in err
    assert (tmp_path / f"figures/{second}.smoke.png").exists() and (tmp_path / OTHERS[TABLE]).exists()


@pytest.mark.parametrize("text", [lambda *_: 1 / 0, lambda *_: "\ud800"])
def test_a_table_that_cannot_be_written_is_left_out(text, results, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("analysis.output.build.to_latex", text)
    assert analysed(results, tmp_path, TABLE, FIGURE) == 1
    assert f"left out: {TABLE} (tier smoke): " in capsys.readouterr().err and (tmp_path / OTHERS[FIGURE]).exists()


def test_all_of_the_analysis_goes_on_without_one_and_is_not_taken_for_whole(
    few, results, tmp_path, monkeypatch, capsys
):
    fails(monkeypatch, "main-results")
    for _ in range(2):  # the second time it is not "unchanged"
        assert analysed(results, tmp_path) == 1
        out, err = capsys.readouterr()
        assert err.startswith("left out: main-results (tier smoke): ZeroDivisionError") and "report.html" not in err
        assert "unchanged" not in out
    names = {path.name.partition(".")[0] for folder in ("tables", "figures") for path in (tmp_path / folder).iterdir()}
    assert names == set(artefacts()) - {"main-results"}
    assert (tmp_path / "report.html").exists() and (tmp_path / "macros.smoke.tex").exists()


def test_the_page_alone_may_fail(few, results, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(page, "render", lambda *_: 1 / 0)
    assert analysed(results, tmp_path) == 1
    assert f"left out: {tmp_path / 'report.html'}: ZeroDivisionError" in capsys.readouterr().err
    assert (tmp_path / "macros.smoke.tex").exists() and len(list((tmp_path / "tables").glob("*.md"))) == 4


@pytest.mark.parametrize("label", [label for label in artefacts() if label.startswith("optuna-")])
def test_infinite_values_of_older_versions_are_not_shown(label, tmp_path):
    study = optuna.create_study(
        storage=f"sqlite:///{tmp_path}/studies.db", study_name="tune_gated_bepo.webshop.smoke", direction="maximize"
    )
    study.set_user_attr("objectives", ["validation_success"])
    space = {name: optuna.distributions.FloatDistribution(0, 1) for name in ("x", "y")}
    for i in range(30):
        params = {"x": i / 30, "y": (7 * i % 30) / 30}
        value = {3: math.inf, 4: -math.inf}.get(i, params["x"])
        study.add_trial(optuna.create_trial(params=params, distributions=space, value=value))
    found = artefact_of(tmp_path, label, "smoke")
    assert "30 complete trials (2 with an infinite value, which are not shown)" in found.caption
    found.figure.draw_without_rendering()


def test_runs_that_have_not_ended_are_counted_in_one_line(tmp_path, monkeypatch, capsys):
    """A sweep in progress has noted all its cells."""
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path, "main_sokoban_text", {}, [[1, 0]])
    for number in range(3):
        note_cell(tmp_path, "main_sokoban_text", "laptop", [f"seed={number}"], f"{number}" * 12)
        (tmp_path / "runs" / (f"{number}" * 12)).mkdir()
    main(["sokoban-text-curves", "--source", "local", "--results", str(tmp_path), "--out", str(tmp_path / "out")])
    told = [line for line in capsys.readouterr().err.splitlines() if "left out" in line]
    assert told == ["left out: 3 runs that are not complete (python -m analysis runs)"]
