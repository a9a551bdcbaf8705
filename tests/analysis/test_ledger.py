"""The ledger of runs, and what `runs delete` may delete."""

import shutil
from types import SimpleNamespace

import pytest
from rich.console import Console

from analysis.__main__ import main
from analysis.output.ledger import filtered, ledger, newest, show
from bepo.core import printed_tables
from bepo.explore.index import names_of
from bepo.store.archive import write_archive
from bepo.store.cells import note_cell
from bepo.store.published import PublishedRuns
from bepo.store.run_files import read_run
from bepo.store.runs import RunFolder
from tests.stored_runs import write_run


@pytest.fixture
def results(tmp_path):
    for i, (credit, dirty) in enumerate([("grpo", False), ("gigpo", True), ("gated_bepo", False)]):
        folder = RunFolder(tmp_path, f"run{i}")
        with folder.locked():
            config = {"env": {"name": "webshop"}, "credit": {"name": credit}, "model": "large", "seed": i}
            session = {"started": f"2026-11-2{i}", "commit": "0123456789", "dirty": dirty}
            folder.start(config | {"tier": "smoke", "updates": 4}, session)
            folder.append("metrics", {"update": 1})
            row = {"update": 1, "split": "test", "evaluation_seed": 0, "task": "t", "success": True}
            folder.append("episodes", row)
            if i < 2:
                folder.complete({"result": {"success": 0.5, "updates": 1}, "wall_seconds_last_session": 12.3})
    note_cell(tmp_path, "main_webshop", "smoke", ["seed=0"], "run0")
    note_cell(tmp_path, "gate_form", "smoke", ["seed=0"], "run0")
    return tmp_path


def test_every_run_is_a_row(results):
    (results / "runs" / "run1" / "metrics.jsonl").write_text("", encoding="utf-8")
    table = ledger(results).set_index("run")
    assert list(table["status"]) == ["complete", "corrupt", "partial 1/4"]
    assert table.loc["run0", "study"] == "gate_form,main_webshop" and table.loc["run0", "wall"] == "12 s"
    assert list(table["commit"]) == ["0123456", "0123456+", "0123456"]


def test_published_runs_are_rows_unless_the_folder_has_them(results, tmp_path_factory):
    published = PublishedRuns(tmp_path_factory.mktemp("published") / "smoke")
    published.folder.mkdir()
    for run_id in ("run0", "run1"):
        write_archive(read_run(results / "runs" / run_id), published.archive(run_id))
    published.note_cells("main_webshop", [{"overrides": ["seed=1"], "varying": ["seed"], "run_id": "run1"}])
    published.note_cells("gate_form", [{"overrides": ["seed=2"], "varying": ["seed"], "run_id": "gone"}])
    (published.folder / "torn.zip").write_bytes(b"PK")
    shutil.rmtree(results / "runs" / "run1")
    table = ledger(results, [published]).set_index("run")
    known = {"run0": "complete", "run1": "published", "run2": "partial 1/4", "torn": "corrupt"}
    assert dict(table["status"]) == known | {"gone": "missing (a published cell names it)"}
    assert list(table.loc["torn", ["tier", "model"]]) == ["smoke", ""] and table.loc["gone", "study"] == "gate_form"
    assert table.loc["run1", "study"] == "main_webshop" and table.loc["run1", "success"] == 0.5


def test_the_newest_runs_are_shown_ones_own_first(results, tmp_path_factory, capsys):
    other = write_run(tmp_path_factory.mktemp("theirs"), "gate_form", {}, [[1, 0]], tier="smoke")
    published = PublishedRuns(tmp_path_factory.mktemp("published") / "smoke")
    published.folder.mkdir()
    write_archive(read_run(other.path), published.archive(other.id))
    table = ledger(results, [published])
    assert list(newest(table)["run"]) == ["run2", "run1", "run0", other.id]
    assert list(newest(table, 2)["run"]) == ["run2", "run1"]
    line = show(table, 2)
    out = capsys.readouterr().out
    assert "run2" in out and "run0" not in out
    assert line.startswith("4 runs: 2 complete, 1 published, 1 partial\nthe newest 2 are shown, yours first; --all")


def test_columns_that_do_not_fit_are_named(results, monkeypatch, capsys):
    class Narrow(Console):
        is_terminal = True

        def __init__(self, **options):
            super().__init__(**options, width=60, color_system=None)

    monkeypatch.setattr(printed_tables, "Console", Narrow)
    line = show(ledger(results))
    out = capsys.readouterr().out
    assert "gated_bepo" in out and max(map(len, out.splitlines())) <= 60
    assert "too narrow for" in line and "model" in line and "run," not in line


def test_a_published_run_of_older_code_says_so(tmp_path):
    run = write_run(tmp_path, "gate_form", {}, [[1, 0]], versions={"run": 0}, tier="smoke")
    published = PublishedRuns(tmp_path / "published" / "smoke")
    published.folder.mkdir(parents=True)
    write_archive(read_run(run.path), published.archive(run.id))
    assert list(ledger(tmp_path / "nothing", [published])["status"]) == ["published (outdated)"]


def test_filters(results):
    def runs(*filters):
        return list(filtered(ledger(results), filters)["run"])

    assert runs("credit=grpo,gigpo", "tier=smoke") == ["run0", "run1"]
    assert runs("status=partial") == ["run2"] and runs("study=gate_form") == ["run0"] and runs("seed=7") == []
    assert runs("began=2026-11-21") == ["run1"]


@pytest.mark.parametrize(
    "text, told",
    [
        ("colour=red", "unknown filter 'colour=red'"),
        ("status=nope", "unknown status 'nope'"),
        ("tier=", "unknown tier ''"),
    ],
)
def test_a_filter_that_does_not_exist_is_refused_before_runs_are_read(text, told, results, monkeypatch, capsys):
    monkeypatch.setattr("analysis.output.ledger.ledger", lambda *_: pytest.fail("runs are read"))
    assert main(["runs", text, "--results", str(results)]) == 2 and told in capsys.readouterr().err


def test_where_no_run_meets_a_filter_the_values_that_runs_have_are_named(results, capsys):
    assert main(["runs", "status=missing", "study=gate", "--results", str(results)]) == 0
    first, status, study = capsys.readouterr().out.splitlines()
    assert first.startswith("none of ") and first.endswith(" runs has status=missing study=gate")
    assert status.startswith("  status: complete, partial") and "gate_form, " in study and "main_webshop" in study


def test_a_folder_of_a_run_that_never_began_changes_no_filter(results, capsys):
    (results / "runs" / "refused").mkdir()
    assert main(["runs", "seed=1", "--results", str(results), "--source", "local"]) == 0
    assert "1 runs: 1 complete" in capsys.readouterr().out


def test_only_what_is_named_is_removed(results, capsys):
    assert main(["runs", "status=partial", "--results", str(results)]) == 0
    assert "run2" in (out := capsys.readouterr().out) and "1 runs: 1 partial" in out
    assert main(["runs", "delete", "run1", "run", "--results", str(results)]) == 2
    assert "nothing was deleted" in capsys.readouterr().err
    with RunFolder(results, "run2").locked():
        assert main(["runs", "delete", "run1", "run2", "--results", str(results)]) == 2
    assert "run2 is being written" in capsys.readouterr().err
    before = {p.name for p in (results / "runs").iterdir()}
    assert main(["runs", "delete", "run1", "--results", str(results)]) == 0
    assert capsys.readouterr().out == "deleted run1\n"
    assert {p.name for p in (results / "runs").iterdir()} == before - {"run1"} == {"run0", "run2"}
    assert len(list((results / "studies").glob("*/*/*.json"))) == 2
    assert main(["runs", "delete", "run0", "--results", str(results)]) == 0
    assert not list((results / "studies").glob("*/*/*.json"))  # they pointed at run0


def test_the_ledger_and_the_list_of_runs_say_what_differs_from_most_runs_that_look_alike(tmp_path):
    def start(number, gamma, seed=0):
        folder = RunFolder(tmp_path, f"run{number}")
        with folder.locked():
            config = {"env": {"name": "webshop"}, "credit": {"name": "gated_bepo", "gamma": gamma}, "seed": seed}
            config |= {"policy": {"seed": seed}, "tier": "smoke", "updates": 4}
            folder.start(config, {"started": f"2026-11-2{number}"})
        return SimpleNamespace(id=folder.path.name, config=config)

    runs = [start(0, 0.9), start(1, 0.95)]
    assert list(ledger(tmp_path)["differs"]) == ["gamma=0.9", "gamma=0.95"]
    runs += [start(2, 0.9), start(3, 0.9, seed=1)]
    assert list(ledger(tmp_path)["differs"]) == ["", "gamma=0.95", "", ""]
    same = "Gated-BEPO seed 0"
    assert names_of(runs) == [f"{same} run0", f"{same} gamma=0.95", f"{same} run2", "Gated-BEPO seed 1"]
