"""The learning grid: which settings it learns, and what it does not repeat."""

import pytest

from bepo.core.places import CONF
from bepo.credit import make
from bepo.lab.__main__ import main
from bepo.lab.record import LabCell, read
from bepo.lab.words import applicable, credits_of, read_credit
from bepo.runs.compose import register_configs, to_config
from bepo.sweep.composition import compose_with_hydra

SMALL = ["world=chain", "worlds=8", "seeds=2", "updates=1", "tasks=2", "group_size=2", "aliased_policy=false"]


@pytest.fixture(scope="module")
def settings_of_two_studies():
    register_configs()
    return credits_of(["gate_form", "step_weight", "prompting_sokoban"])


def test_settings_that_studies_share_are_learned_once(settings_of_two_studies):
    """Both studies have the paper's setting; the evaluations of the third study have no credit."""
    names = list(settings_of_two_studies)
    assert len(names) == 4 + 4 - 1 and names.count("gated_bepo") == 1
    assert {f"gated_bepo step_weight={x}" for x in (0.5, 1.0, 2.0)} <= set(names)


def test_the_words_of_a_setting_are_what_the_command_takes(settings_of_two_studies):
    register_configs()
    for words, credit in settings_of_two_studies.items():
        assert read_credit(words) == credit


def test_an_estimator_without_settings_is_the_one_that_hydra_composes():
    register_configs()
    for name in ("gated_bepo", "hgpo"):
        assert read_credit(name) == to_config(compose_with_hydra(CONF, "train", [f"credit={name}"])).credit


def test_finished_settings_are_not_learned_again(tmp_path, capsys):
    out = tmp_path / "new" / "grid.csv"
    assert main(["grid", "gated_gagpo", *SMALL, "--out", str(out)]) == 0
    assert "2 of 2 credit settings" in capsys.readouterr().out
    table, written = read(out), out.read_bytes()
    assert len(table) == 2 * 3 and table["digest"].nunique() == 2 and table["at"].str.contains("worlds=8").all()
    assert table.set_index("measure").loc["training", ["0", "1"]].notna().all(None)  # two seeds

    assert main(["grid", "gated_gagpo", *SMALL, "--out", str(out)]) == 0
    assert "0 of 2 credit settings" in capsys.readouterr().out and out.read_bytes() == written

    out.write_text(
        "".join(line for line in written.decode().splitlines(True) if ",gagpo," not in line), encoding="utf-8"
    )
    assert main(["grid", "gated_gagpo", *SMALL, "--out", str(out)]) == 0
    assert "1 of 2 credit settings" in capsys.readouterr().out
    assert out.read_bytes() == written

    assert main(["grid", "gated_gagpo", *SMALL, "success=0.2", "--out", str(out)]) == 0
    assert "2 of 2 credit settings" in capsys.readouterr().out and len(read(out)) == 12


def test_the_digest_names_the_method_version(monkeypatch):
    cell = LabCell("learning", "horizon=15", "grpo")
    before = cell.digest
    monkeypatch.setattr(type(make("grpo")), "method_version", 99)
    assert cell.digest != before


def test_an_estimator_with_a_critic_is_left_out():
    credits = {name: make(name) for name in ("grpo", "ppo")}
    assert applicable(credits) == ({"grpo": credits["grpo"]}, ["ppo"])


@pytest.mark.parametrize("content", ["a,b\n1,2\n", "", "\x00\x01"])
def test_a_file_of_another_kind_is_refused(content, tmp_path, capsys):
    (tmp_path / "table.csv").write_text(content, encoding="utf-8")
    assert main(["grid", "gated_gagpo", "--out", str(tmp_path / "table.csv")]) == 2
    error = capsys.readouterr().err
    assert "not a file of recorded measurements" in error and error.count("\n") == 1
    assert (tmp_path / "table.csv").read_text(encoding="utf-8") == content
