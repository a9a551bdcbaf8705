"""Cells of studies: what is read back is what was written."""

import json

import pytest

from bepo.store.cells import cells_of_run, note_cell, read_cell, study_cells
from bepo.store.files import Corrupt


@pytest.fixture
def cell(tmp_path):
    note_cell(tmp_path, "s", "smoke", ["seed=0", "env=sokoban"], "abc", ["seed=0"])
    (path,) = tmp_path.glob("studies/s/smoke/*.json")
    return path


def test_a_cell_is_read_as_it_was_written(tmp_path, cell):
    expected = {"overrides": ["env=sokoban", "seed=0"], "varying": ["seed=0"], "run_id": "abc"}
    assert read_cell(cell) == expected and cells_of_run(tmp_path, "abc") == {"s": expected}


def test_every_flipped_bit_of_a_cell_is_noticed(tmp_path, cell):
    whole = cell.read_bytes()
    for place in range(len(whole)):
        cell.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        with pytest.raises(Corrupt, match=cell.name):
            read_cell(cell)
    assert not list(study_cells(tmp_path))
    note_cell(tmp_path, "s", "smoke", ["seed=0", "env=sokoban"], "newer")  # the next plan repairs it
    assert read_cell(cell)["run_id"] == "newer"


def test_a_cell_from_before_cells_had_digests_is_read(cell):
    content = read_cell(cell)
    cell.write_text(json.dumps(content, indent=1), encoding="utf-8")
    assert read_cell(cell) == content
    del content["varying"]
    cell.write_text(json.dumps(content), encoding="utf-8")
    assert read_cell(cell) == content
