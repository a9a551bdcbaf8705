"""The tables of hyper-parameters: composed or run, never typed."""

import json

import pytest

from analysis.data.sources import Source
from analysis.tables.hparams import agree, settings_of_tier
from bepo.runs.reference import reference
from bepo.settings import FILE, REFERENCE, main_settings
from tests.stored_runs import write_run
from tests.tables import artefact_of


def marked(table):
    """The first texts of the rows with a sign."""
    return {row[0].value for row in table.rows if any(printed.mark for printed in row)}


@pytest.mark.slow
def test_the_settings_reference_is_up_to_date():
    assert REFERENCE.read_text(encoding="utf-8") == reference(), "run `python -m bepo.settings docs/settings.md`"


def test_the_kept_settings_are_what_composes():
    assert json.loads(FILE.read_text(encoding="utf-8")) == json.loads(json.dumps(main_settings())), (
        "run `python -m bepo.settings`"
    )


def test_numbers_agree_whatever_they_look_like():
    assert agree("20 / 1e-6", "20 / 1e-06") and agree("1", "1.0") and agree("0.0003", "1e-6") is False
    assert agree("mean", "empirical mean") is None


def test_what_was_run_goes_before_what_composes(tmp_path):
    before = settings_of_tier([], "laptop")["sokoban small"]
    assert before.runs == 0 and before.text("credit.step_weight") == "1.5"
    for seed in (0, 1):
        run = {"credit.step_weight": 2.5, "credit.backup": "max", "seed": seed}
        write_run(tmp_path, "main_sokoban", run, ((1, 0),))
    found = settings_of_tier([Source(tmp_path).study("main_sokoban", "laptop")], "laptop")["sokoban small"]
    assert found.runs == 2 and found.text("credit.step_weight / credit.backup") == "2.5 / max"
    table = artefact_of(tmp_path, "supp-common-hparams")
    row = next(row for row in table.rows if row[0].value == "Step weight w")
    assert [value.value for value in row[1:]] == ["1.5", "1.5 (2.5: sokoban small)", "credit.step_weight"]
    assert "the runs of sokoban small (2)" in table.notes[0]


def test_every_row_of_the_paper_is_there_and_other_numbers_are_marked(tmp_path):
    common = artefact_of(tmp_path, "supp-common-hparams", "paper")
    assert len(common.rows) == 24 and all(row[2].value != "–" for row in common.rows)
    assert not marked(common)  # the paper tier is the paper's
    unlike = artefact_of(tmp_path, "supp-common-hparams")
    assert marked(unlike) >= {"Learning rate"}
    places = artefact_of(tmp_path, "supp-environment-hparams", "paper")
    reported = [row[0].value for row in places.rows if row[2].value == "reported"]
    assert reported == ["alfworld", "alfworld", "webshop", "webshop", "sokoban"]
    assert "None of these settings was run" in places.notes[0]
