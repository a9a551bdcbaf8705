"""The recorded measurements of paper/lab: they are what the command makes, and what is there is not measured again."""

import numpy as np
import pandas as pd
import pytest

from bepo.lab import record
from bepo.lab.__main__ import main
from bepo.lab.record import RECORDED, LabCell, cells, read, rows
from bepo.lab.words import read_credit
from bepo.runs.compose import register_configs

PLAN = """
panels:
  one: {at: [world=chain worlds=3 groups=5 horizon=12], estimators: [grpo, gated_bepo gae_lambda=0]}
  two: {at: [world=chain worlds=3 groups=5 horizon=12], estimators: [grpo, exact]}
bias: {at: [world=tree horizon=4 group_size=2], estimators: [exact]}
learning: {at: [world=chain worlds=2 seeds=3 updates=2 tasks=2 group_size=2], studies: false, estimators: [grpo]}
gain: {at: [world=chain worlds=3 groups=5 horizon=12 like=webshop], estimators: {rebn: rebn}}
sampled: {at: ["'webshop products=10' games=1 groups=1 group_size=2 continuations=2"], estimators: {gigpo: gigpo}}
"""


@pytest.mark.parametrize(
    "cell",
    [
        LabCell("fidelity", "group_size=2", "gated_bepo"),
        LabCell("bias", "world=tree horizon=4 group_size=2", "gated_bepo"),
        pytest.param(
            LabCell("sampled", "alfworld games=12", "graphgpo_official"), marks=[pytest.mark.slow, pytest.mark.long]
        ),
    ],
    ids=["fidelity", "bias", "sampled"],
)
def test_a_recorded_cell_is_made_again_exactly(cell):
    found = read(RECORDED / f"{cell.kind}.csv")
    register_configs()
    made = rows(cell)
    kept = found[found["digest"] == made["digest"][0]].reset_index(drop=True)
    pd.testing.assert_frame_equal(kept[list(made)], made, check_dtype=False)


@pytest.mark.parametrize(
    "kind",
    ["fidelity", "bias", "sampled", "gain", pytest.param("learning", marks=[pytest.mark.slow, pytest.mark.long])],
)
def test_every_cell_of_the_plan_is_recorded_and_no_other(kind):
    found = read(RECORDED / f"{kind}.csv")
    wanted = cells(kind)
    register_configs()
    assert list(found["digest"].unique()) == [cell.digest for cell in wanted]
    worlds = found[[column for column in found if column.isdecimal()]]
    assert np.isfinite(worlds[worlds.columns[0]]).all()


def test_only_what_is_missing_is_measured(tmp_path, monkeypatch, capsys):
    (tmp_path / "lab.yaml").write_text(PLAN, encoding="utf-8")
    monkeypatch.setattr(record, "PLAN", tmp_path / "lab.yaml")
    measured = []
    monkeypatch.setattr(record, "rows", lambda cell: measured.append(cell.estimator) or rows(cell))
    assert main(["record", "--out", str(tmp_path / "new")]) == 0
    assert measured == [
        "grpo",
        "gated_bepo gae_lambda=0",
        "exact",
        "exact",
        "grpo",
        "gigpo",
        "rebn",
    ]  # shared cells count once
    path = tmp_path / "new" / "fidelity.csv"
    assert capsys.readouterr().out.split() == [str(path.with_name(f"{kind}.csv")) for kind in record.KINDS]
    learned = read(path.with_name("learning.csv")).set_index("measure")
    assert learned.loc["training", ["0", "1", "2"]].notna().all()
    assert learned.loc["curve", ["0", "1"]].mean() == pytest.approx(
        learned.loc["training", ["0", "1", "2"]].mean(), abs=1e-3
    )
    written = path.read_text(encoding="utf-8")
    table = read(path)
    assert len(table) == 3 * len(record.RECORDED_MEASURES["fidelity"])
    assert table.query("estimator == 'exact' & measure == 'error'")["0"].item() == 0

    lines = written.splitlines(True)
    path.write_text("".join(line for line in lines if ",grpo," not in line), encoding="utf-8")
    assert main(["record", "fidelity", "--out", str(tmp_path / "new")]) == 0
    assert measured[7:] == ["grpo"] and path.read_text(encoding="utf-8") == written

    (tmp_path / "lab.yaml").write_text(PLAN.replace("[grpo, exact]", "[grpo]"), encoding="utf-8")
    assert main(["record", "fidelity", "--out", str(tmp_path / "new")]) == 0
    assert len(measured) == 8 and "exact" not in path.read_text(encoding="utf-8")  # cells that left the plan go


def test_the_digest_names_what_makes_a_cell(monkeypatch):
    register_configs()
    one = LabCell("fidelity", "group_size=8", "grpo")
    same, *others = (
        LabCell("fidelity", "", "grpo"),
        LabCell("fidelity", "slip=0.1", "grpo"),
        LabCell("fidelity", "", "grpo std=none"),
        LabCell("fidelity", "", "exact"),
        LabCell("bias", "", "grpo"),
    )
    assert one.digest == same.digest and len({one.digest, *(cell.digest for cell in others)}) == 5
    games = [
        LabCell("sampled", f"{at} games=2", "g2po_official") for at in ("webshop", "'webshop products=10'", "alfworld")
    ]
    games.append(LabCell("sampled", "webshop games=3", "g2po_official"))
    assert len({cell.digest for cell in games}) == 4


def test_a_cell_without_a_measure_is_measured_again(tmp_path):
    """An older version recorded fewer measures."""
    path, cell = tmp_path / "fidelity.csv", LabCell("fidelity", "world=chain worlds=3 groups=5 horizon=12", "exact")
    assert record.measure_missing(path, [cell], print) == 1
    whole = path.read_bytes()
    other = "another,at,grpo,error,0.5,0.5,0.5\n"
    path.write_bytes(b"".join(line for line in whole.splitlines(True) if b",gain," not in line) + other.encode())
    assert record.measure_missing(path, [cell], print) == 1
    assert path.read_bytes() == whole + other.encode()  # rows of other cells stay, at the end
    assert record.measure_missing(path, [cell], print) == 0


@pytest.mark.parametrize("env, std", [("alfworld", "sample"), ("webshop", "none"), ("sokoban", "sample")])
def test_a_preset_that_follows_the_environment_takes_its_settings(env, std):
    register_configs()
    assert vars(read_credit("g2po_official", env))["std"] == std


def test_a_file_of_another_kind_is_one_line(tmp_path, capsys):
    (tmp_path / "fidelity.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    assert main(["record", "fidelity", "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "not a file of recorded" in error and error.count("\n") == 1


def test_equal_group_sizes_by_hand(capsys):
    from bepo.lab.equal import in_words, needed, needed_with_interval

    sizes, curve = (2, 4, 8), np.array([[0.1, 0.3], [0.4, 0.4], [0.6, 0.8]])
    reached = needed(sizes, np.repeat(curve.mean(1)[:, None], 3, 1), np.array([0.2, 0.55, 0.9]))
    assert reached == pytest.approx([0, 4 * 2**0.5, np.inf])  # 0.55 is half of the way from .4 to .7
    assert in_words((0.0, 0.0, np.inf), sizes) == "< 2 [< 2, > 8]"
    size, low, high = needed_with_interval(sizes, curve, np.array([0.5, 0.6]))
    assert low <= size <= high
    small = ["worlds=2", "groups=5", "world=chain", "horizon=12", "equal_to=8"]
    assert main(["fidelity", "grpo", "exact", *small]) == 0
    printed = capsys.readouterr().out
    assert "grpo                     8.0 [8.0, 8.0]" in printed and "exact                    < 2" in printed
