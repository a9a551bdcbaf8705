"""The command: tables, a file, and one line for bad input."""

import numpy as np
import pandas as pd
import pytest

from bepo.lab.__main__ import main
from bepo.lab.words import credit_words, probe_of, read_credit, read_estimate, read_settings


def test_fidelity_prints_a_row_an_estimator_and_writes_one_a_world(tmp_path, capsys):
    out = tmp_path / "fidelity.csv"
    small = ["world=chain", "worlds=3", "groups=20", "horizon=12"]
    names = ["grpo", "gated_bepo gae_lambda=0", "gate_soft_k3", "exact"]
    assert main(["fidelity", *names, *small, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in names) and "error" in printed
    table = pd.read_csv(out)
    assert len(table) == 4 * 3 and table[table.estimator == "exact"].error.abs().max() < 1e-9


def test_intervals_are_students_over_worlds(tmp_path, capsys):
    out = tmp_path / "fidelity.csv"
    assert main(["fidelity", "grpo", "world=chain", "worlds=3", "groups=20", "horizon=12", "--out", str(out)]) == 0
    header, row = capsys.readouterr().out.splitlines()[:2]
    assert header.split()[0] == "error"
    error = pd.read_csv(out)["error"]
    assert row.split()[1:4] == [f"{error.mean():.3f}", "±", f"{4.302653 * error.std() / 3**0.5:.3f}"]


def test_without_names_every_estimator_is_measured(capsys):
    assert main(["bias", "world=tree", "group_size=2", "horizon=4"]) == 0
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()[1:]}
    assert {"grpo", "rloo", "gated_bepo", "graphgpo", "oracle", "exact", "random"} <= rows.keys()
    assert rows["exact"] == ["1.000", "0.000"]


def test_presets_follow_the_environment_whose_dials_are_asked_for(tmp_path):
    """As in paper/lab/gain.csv: WebShop's preset of GraphGPO has another omega than Sokoban's."""
    small = ["world=chain", "worlds=3", "groups=20", "horizon=12", "graphgpo_official"]
    words = credit_words(read_credit("graphgpo_official", "webshop"))
    assert words != credit_words(read_credit("graphgpo_official", "sokoban"))
    tables = []
    for out, names in {"preset": small, "settings": [*small[:-1], words]}.items():
        assert main(["fidelity", "like=webshop", *names, "--out", str(tmp_path / out)]) == 0
        tables.append(pd.read_csv(tmp_path / out).drop(columns="estimator"))
    pd.testing.assert_frame_equal(*tables)


def test_every_state_has_a_word():
    """ProxMO that compares equal texts only is GiGPO without a deviation."""
    probed = probe_of(*read_settings({"world": "chain", "worlds": 3, "groups": 20, "horizon": 12}))
    proxmo, gigpo = (read_estimate(text, False)(probed) for text in ("proxmo temperature=0 swing=0", "gigpo std=none"))
    np.testing.assert_allclose(proxmo, gigpo, atol=1e-12)


def test_an_update_of_0_has_no_direction(capsys):
    assert main(["bias", "grpo", "world=tree", "horizon=4", "group_size=1"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["grpo", "0.000"]


@pytest.mark.slow
def test_learning_from_the_command_line(capsys):
    small = ["world=grid", "worlds=12", "seeds=2", "updates=2", "tasks=4", "success=0.1"]
    assert main(["learn", "grpo", "random", *small]) == 0
    assert "training" in capsys.readouterr().out
