"""Episodes, strips, graphs and comparisons: what the viewer shows is what the estimators say."""

import numpy as np
import pytest

from bepo.core.graph import RolloutGraph
from bepo.credit import make
from bepo.explore.advantages import applies, paper_part, strips
from bepo.explore.compare import first_difference, pairs
from bepo.explore.episodes import episodes, transcript_batch
from bepo.explore.groups import groups
from bepo.explore.index import curves, types
from bepo.explore.layout import layout
from bepo.store.find import read_any
from tests.explore.runs_with_episodes import batch, transcript, write


def test_strips_are_the_estimators_own_first_with_its_settings():
    found = strips(batch(), {"name": "gated_bepo", "step_weight": 0.5})
    assert found[0].own and not any(strip.own for strip in found[1:])
    np.testing.assert_array_equal(found[0].advantage, make("gated_bepo", step_weight=0.5)(batch()).advantage)
    assert list(found[0].parts) == ["outcome", "step", "gate", "value"]
    names = {strip.name for strip in found}
    assert {"grpo", "gigpo", "graphgpo"} < names and not {"ppo", "oracle"} & names  # no critic and no expert here


@pytest.mark.parametrize("name", ["grpo", "gagpo", "batch_bepo", "empg", "gated_bepo"])
def test_gate_and_values_of_the_page_are_those_of_the_paper(name):
    """AdaStep's weights are no gates, and Batch-BEPO's or GAGPO's values no fixed points."""
    rollouts = batch()
    found = strips(rollouts, {"name": name})
    terms = make("gated_bepo")(rollouts).terms
    np.testing.assert_array_equal(paper_part(found, "gate"), terms["rho"])
    np.testing.assert_array_equal(paper_part(found, "value"), terms["value"])
    assert {s.name for s in found if "gate" in s.parts} == {"gated_bepo", "ecpo"}
    assert {s.name for s in found if "weight" in s.parts} == {"adastep", "proxmo"}
    shown = [node.get("value") for group in groups(rollouts, found, None) for node in group["graph"]["nodes"]]
    expected = dict(zip(rollouts.state.tolist(), terms["value"].round(4).tolist()))
    assert {v for v in shown if v is not None} == set(expected.values())


def test_an_estimator_is_left_out_if_one_value_of_its_column_is_missing():
    rollouts = batch()
    entropy = np.ones(len(rollouts))
    assert applies(make("empg"), rollouts.with_columns(entropy=entropy))
    entropy[2] = np.nan
    assert not applies(make("empg"), rollouts.with_columns(entropy=entropy))
    steps = {"expert_steps": entropy, "next_expert_steps": entropy}  # here NaN says that the expert finds no way
    assert applies(make("oracle"), rollouts.with_columns(**steps))
    assert not applies(make("oracle"), rollouts)


def test_an_estimator_that_nobody_knows_leaves_the_others():
    assert not any(strip.own for strip in strips(batch(), {"name": "someone's"}))
    assert not any(strip.own for strip in strips(batch(), {"name": "grpo", "no_such_setting": 1}))


def test_a_group_shows_every_transition_of_its_own():
    rollouts = batch()
    found = strips(rollouts, {"name": "grpo"})
    first, second = groups(rollouts, found, None)
    assert [len(e["action"]) for e in first["episodes"]] == [3, 2, 1]
    assert [first["texts"][a] for a in first["episodes"][0]["action"]] == ["go a", "go a", "go b"]
    shown = [strip["advantage"] for group in (first, second) for strip in group["strips"] if strip["label"] == "GRPO"]
    np.testing.assert_allclose(np.concatenate(shown), make("grpo")(rollouts).advantage, atol=5e-5)
    assert second["episodes"][0]["valid"] == [0]
    states = {node["id"]: node for node in first["graph"]["nodes"] if node["id"] >= 0}
    graph = RolloutGraph(rollouts)
    for state, node in states.items():
        assert (node["visits"], node["branches"]) == (graph.visits[state], graph.branches[state])
    taken = sum(n for *_, actions in first["graph"]["edges"] for _, n in actions)
    assert taken == 6


def test_columns_are_fewest_steps_and_ends_come_last():
    place = layout([(0, 1), (1, 2), (0, 2), (2, -1), (1, 1)], [0])
    assert {node: x for node, (x, _) in place.items()} == {0: 0, 1: 1, 2: 1, -1: 2}
    assert len(set(place.values())) == len(place)


def test_rows_are_sorted_so_that_parallel_paths_do_not_cross():
    place = layout([(0, 1), (0, 2), (1, 4), (2, 3)], [0])
    assert (place[1][1] < place[2][1]) == (place[4][1] < place[3][1])


@pytest.mark.parametrize(
    ("a", "b", "first"), [("ab", "ab", None), ("ab", "ac", 1), ("ab", "a", 1), ("a", "b", 0), ("a", "ab", 1)]
)
def test_the_first_difference(a, b, first):
    assert first_difference(transcript("t", a, True), transcript("t", b, True)) == first


def test_pairs_are_tasks_that_both_have():
    one = [transcript(task, "a", True) for task in ("x", "y", "x")]
    other = [transcript(task, "a", True) for task in ("x", "z", "x", "x")]
    assert pairs(one, other) == [(0, 0), (2, 2)]


def test_transcripts_end_as_their_rows_say():
    rows = [transcript("t", "ab", True), transcript("t", "ab", False), transcript("t", "abc", False)]
    found = transcript_batch(rows, horizon=3)
    assert found.terminal[found.last].tolist() == [1, 2, 3] and found.n_groups == 3
    too_long = transcript("t", "ab", False) | {"overlong": True}
    found = transcript_batch([too_long], horizon=3)
    assert found.terminal[found.last].tolist() == [3]


def test_a_failure_at_the_last_step_is_no_truncation():
    rows = [transcript("t", "abc", False) | {"end": end} for end in ("failure", "truncation")]
    found = transcript_batch(rows, horizon=3)
    assert found.terminal[found.last].tolist() == [2, 3]


def test_older_transcripts_do_not_say_whether_a_response_was_valid():
    row = transcript("t", "ab", True)
    for step in row["steps"]:
        del step["valid"]
    row["steps"][0]["action"] = None
    assert transcript_batch([row], 5).valid.tolist() == [False, True]


def test_a_run_shows_its_test_episodes_and_its_rollouts(tmp_path):
    run = read_any(write(tmp_path).path)
    found = list(episodes(run))
    assert [group.source for group in found] == ["test episodes"] * 3 + ["update 1"] * 2
    assert [row["end"] for row in found[3].summaries] == ["success", "success", "failure"]
    assert [row["gate"] for row in found[0].summaries] == [None] and not found[0].content["strips"]
    assert found[3].summaries[2]["gate"] == 1.0  # its only step starts in the state where the paths part
    assert found[0].content["texts"][found[0].content["episodes"][0]["prompt"][0]] == "a room 0"


def test_curves_leave_out_what_is_no_finite_number():
    rows = [{"update": 1, "a": 0.5, "b": None, "time/x": 1.0, "c": float("nan")}, {"update": 2, "a": 1}]
    assert curves([[], rows]) == {"a": [{"run": 1, "points": [[1, 0.5], [2, 1.0]]}]}


def test_types_compare_the_newest_evaluation_with_the_one_before_training():
    row = {"split": "test", "kind": "x"}
    rows = [{**row, "update": 0, "success": False}, {**row, "update": 3, "success": True}]
    rows += [{**row, "update": 3, "success": False, "kind": "y"}, {**row, "update": 9, "split": "validation"}]
    found = {entry["kind"]: (entry["before"], entry["after"]) for entry in types(0, rows)}
    assert found == {"": (0, 0.5), "x": (0, 1), "y": (None, 0)}
