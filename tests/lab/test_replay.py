"""Estimators on recorded rollouts: a tiny stored run, and files of rows."""

import json
from itertools import islice

import numpy as np
import pandas as pd
import pytest

from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError
from bepo.credit import make
from bepo.envs.sokoban import Sokoban
from bepo.lab.__main__ import main
from bepo.lab.expert import with_expert_steps
from bepo.lab.replay import replay, visited_once
from tests.explore.runs_with_episodes import batch, write

ROWS = [
    {"uid": "task", "traj": 0, "t": 0, "obs": "a", "next": "b", "r": 0.0, "done": None, "valid": True},
    {"uid": "task", "traj": 0, "t": 1, "obs": "b", "next": "c", "r": 1.0, "done": "success", "valid": True},
    {"uid": "task", "traj": 1, "t": 0, "obs": "a", "next": "d", "r": 0.0, "done": "failure", "valid": True},
]


def test_a_stored_run_is_replayed_beside_its_own_estimator(tmp_path, capsys):
    run = write(tmp_path, credit="grpo")
    out = tmp_path / "replay.csv"
    names = ["grpo", "gated_bepo gae_lambda=0", "gate_soft_k3", "oracle"]  # the run has no steps of an expert
    assert main(["replay", str(run.path), *names, "--out", str(out)]) == 0
    assert "own_rank" in capsys.readouterr().out
    table = pd.read_csv(out).set_index("estimator")
    assert list(table.index) == ["own (grpo)", *names[:3]] and set(table["update"]) == {1}
    assert table.loc["grpo", ["own_rank", "own_cosine", "own_apart"]].tolist() == pytest.approx([1, 1, 0])
    assert table.loc["gate_soft_k3", "own_apart"] > 0.2


@pytest.mark.parametrize("env, std", [("webshop", "none"), ("alfworld", "sample")])
def test_presets_take_the_settings_of_the_runs_environment(env, std, tmp_path):
    run, out = write(tmp_path, **{"env.name": env}), tmp_path / "replay.csv"
    assert main(["replay", str(run.path), "g2po_official", f"g2po std={std}", "--out", str(out)]) == 0
    table = pd.read_csv(out).set_index("estimator")
    assert table.loc["g2po_official", "own_cosine"] == table.loc[f"g2po std={std}", "own_cosine"]
    assert table.loc["g2po_official", "apart"] == 0


def test_a_run_is_found_by_the_beginning_of_its_id(tmp_path, capsys):
    run = write(tmp_path)
    assert main(["replay", run.id[:6], "grpo", "--results", str(tmp_path)]) == 0
    assert "own (gated_bepo)" in capsys.readouterr().out


def test_numbers_by_hand():
    found = RolloutBatch.from_rows(ROWS)
    assert visited_once(found).tolist() == [False, True, False]
    rloo = make("rloo", pool="trajectory")
    table = replay(found, {"rloo": rloo, "twin": make("rloo", pool="trajectory"), "graph": make("gated_bepo")})
    advantage = rloo(found).advantage
    row = table.set_index("estimator").loc["rloo"]
    other = make("gated_bepo")(found).advantage
    cosine = advantage @ other / np.sqrt((advantage @ advantage) * (other @ other))
    assert row["cosine"] == pytest.approx((1 + cosine) / 2)
    assert row["variance"] == pytest.approx(np.var(advantage))
    assert row["once"] == pytest.approx(abs(advantage[1]) / np.abs(advantage).sum())


def test_a_tied_group_has_no_agreement():
    tied = batch().of_groups(np.array([False, True]))  # all three episodes fail alike
    table = replay(tied, {"rloo": make("rloo"), "grpo": make("grpo")}).set_index("estimator")
    assert (table["zero"] == 1).all() and table[["rank", "cosine", "once"]].isna().all().all()
    assert (table["apart"] == 0).all()


def test_rows_from_elsewhere_as_json_and_jsonl(tmp_path, capsys):
    (tmp_path / "rows.json").write_text(json.dumps(ROWS), encoding="utf-8")
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    printed = []
    for name in ("rows.json", "rows.jsonl"):
        assert main(["replay", str(tmp_path / name), "grpo", "gated_bepo"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] and "own" not in printed[0]


@pytest.mark.parametrize(
    "words, message",
    [
        (["{folder}/rows.jsonl"], "rows.jsonl"),
        (["{run}", "grp0"], "grp0"),
        (["{run}", "exact"], "exact"),
        (["{run}", "group_size=4"], "group_size"),
        (["{run}", "oracle"], "oracle"),
        (["{folder}/good.jsonl", "grpo", "truth=1"], "truth"),
        (["{folder}/good.jsonl", "grpo", "truth=true"], "needs a run"),
        (["{folder}/good.jsonl", "grpo", "slip=1"], "slip"),
    ],
)
def test_bad_input_is_one_line(words, message, tmp_path, capsys):
    run = write(tmp_path)
    (tmp_path / "rows.jsonl").write_text('{"uid": 1}\nnot a row\n', encoding="utf-8")
    (tmp_path / "good.jsonl").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    assert main(["replay", *(word.format(folder=tmp_path, run=run.path) for word in words)]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_mass_by_kind_of_state_by_hand():
    found = RolloutBatch.from_rows(ROWS)
    row = replay(found, {"rloo": make("rloo", pool="trajectory")}).iloc[0]
    mass = np.abs(make("rloo", pool="trajectory")(found).advantage)  # success: a, b; failure: a
    assert row["first"] == pytest.approx((mass[0] + mass[2]) / mass.sum())
    assert row["last"] == pytest.approx((mass[1] + mass[2]) / mass.sum())
    assert row["won"] == pytest.approx((mass[0] + mass[1]) / mass.sum()) and row["on_path"] == 1
    assert "expert_sign" not in row


def test_the_experts_distance_is_found_by_playing_again(tmp_path, capsys):
    env = Sokoban()
    tasks = list(islice(env.tasks("train"), 2))
    running, rows = env.start(tasks), []
    for k in range(2):
        for t in range(4):
            before, here = running.observations[k].key, running.expert_steps(k)
            action = running.expert(k) if (k, t) != (1, 1) else None
            step = running.step({k: action})[k]
            done = "success" if step.terminal == 1 else "truncation" if t == 3 else None
            ahead = 0.0 if step.terminal == 1 else running.expert_steps(k)
            rows.append(
                {"uid": tasks[k].id, "traj": k, "t": t, "obs": before, "next": step.observation.key, "r": step.reward}
                | {"done": done, "valid": action is not None, "action": action, "expect": (here, ahead)}
            )
            if done:
                break
    found = with_expert_steps(RolloutBatch.from_rows(rows), env, env.tasks("train"))
    steps = np.stack([found.extras["expert_steps"], found.extras["next_expert_steps"]], 1)
    np.testing.assert_array_equal(steps, [row["expect"] for row in rows])
    table = replay(found, {"oracle": make("oracle"), "grpo": make("grpo")}).set_index("estimator")
    assert (table["expert_sign"] <= 0.5).all() and "expert_rank" in table
    with pytest.raises(UserError, match="not among"):
        with_expert_steps(found, env, tasks[:1])
    rows[0]["next"] = "elsewhere"
    with pytest.raises(UserError, match="leads elsewhere"):
        with_expert_steps(RolloutBatch.from_rows(rows), env, tasks)
