"""The fast engine equals textworld on recorded transcripts, and live if textworld is installed."""

import json
from importlib.util import find_spec
from random import Random

import pytest

from bepo.envs import content_id
from bepo.envs.alfworld import ALFWorld
from bepo.envs.alfworld.compare import commands, first_difference, transcript
from bepo.envs.alfworld.engine import FastGame
from bepo.envs.alfworld.generate import TASK_TYPES, generate
from bepo.envs.alfworld.grammar import ForeignExpression
from bepo.envs.alfworld.pddl import Unsupported, parse_domain
from bepo.envs.alfworld.textworld_engine import TextWorldGame
from bepo.rollouts.task_sets import task_set
from tests.envs.alfworld_variants import original_like
from tests.envs.record_alfworld import PATH, game_of, recorded_rows

live = pytest.mark.skipif(
    not (find_spec("textworld") and find_spec("fast_downward")), reason="textworld is not installed (bepo[alfworld])"
)


def test_every_recorded_step_of_textworld_is_repeated():
    cases = json.loads(PATH.read_text(encoding="utf-8"))["games"]
    assert len(cases) >= 30 and any(c["original_like"] for c in cases)
    for case in cases:
        file, _ = game_of(case)
        assert content_id(file["pddl_problem"]) == case["problem"], "record anew: python -m tests.envs.record_alfworld"
        ours = recorded_rows(transcript(FastGame(file), case["commands"]))
        for step, (mine, theirs) in enumerate(zip(ours, case["rows"], strict=True)):
            assert mine == theirs, f"{case['split']} {case['number']} step {step} {case['commands'][:step][-1:]}"
    rows = [row for c in cases for row in c["rows"]]
    assert sum(won for _, _, won in rows) >= 30 and sum(text == "Nothing happens." for text, _, _ in rows) >= 30


@live
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("variant", [False, True])
def test_live_both_engines_have_equal_transcripts(variant):
    game = generate("valid_unseen", 2, TASK_TYPES, 8)
    file = original_like(game.game_file, Random(0)) if variant else game.game_file
    chosen = commands(file, game.traj_data, Random(1), 15)
    assert first_difference(transcript(FastGame(file), chosen), transcript(TextWorldGame(file), chosen)) is None


@live
@pytest.mark.slow
@pytest.mark.long
def test_live_textworld_plays_games_side_by_side():
    env = ALFWorld(engine="textworld", max_receptacles=8)
    tasks = task_set(env, "train", 3).tasks
    ours, theirs = ALFWorld(max_receptacles=8).start(tasks), env.start(tasks)
    assert ours.observations == theirs.observations
    rng = Random(0)
    for _ in range(5):
        actions = {i: rng.choice(ours.observations[i].admissible) for i in range(3)}
        assert ours.step(actions) == theirs.step(actions)


@pytest.mark.parametrize(
    "old, new, construct",
    [
        ("(exists (?l - location)", "(forall (?l - location)", "forall"),
        ("(:predicates", "(:derived (x)) (:predicates", "derived"),
    ],
)
def test_what_the_fast_engine_does_not_interpret_is_named(old, new, construct):
    from bepo.envs.alfworld import package_data

    with pytest.raises(Unsupported, match=rf"{construct}.*env.engine=textworld"):
        parse_domain(package_data.domain().replace(old, new, 1))


FOREIGN = {
    "a call": "__import__('os').system('touch {marker}')",
    "a function": "(lambda: o.name)()",
    "another attribute": "o.__class__",
    "a number": "1",
    "no expression": "o.name +",
    "nested deep": "+".join(["o.name"] * 5000),
}


@live
@pytest.mark.parametrize("engine", [FastGame, TextWorldGame])
@pytest.mark.parametrize("case", FOREIGN)
def test_an_expression_that_could_run_code_is_refused_by_either_engine(engine, case, tmp_path):
    """The expression is in the introduction of the game."""
    marker, file = tmp_path / "ran", generate("train", 0).game_file
    expression = FOREIGN[case].replace("{marker}", str(marker))
    rhs = '"intro": [\n            {\n                "rhs": "'
    assert file["grammar"].count(rhs) == 1
    file["grammar"] = file["grammar"].replace(rhs, f"{rhs}{{{expression}}}")
    with pytest.raises(ForeignExpression) as told:
        engine(file).reset()
    assert expression[:80] in str(told.value) and "env.engine" not in str(told.value)
    assert not marker.exists()


def test_comments_in_a_grammar_are_skipped():
    file = generate("train", 0).game_file
    before = transcript(FastGame(file), ["look", "inventory"])
    commented = 'action inventory {\n# template :: "pockets";'
    file["grammar"] = (
        file["grammar"].replace("action inventory {", commented) + '\n# action sing { template :: "sing"; }\n'
    )
    assert transcript(FastGame(file), ["look", "inventory"]) == before


def test_a_grammar_for_which_the_engines_could_differ_is_refused():
    file = generate("train", 0).game_file
    file["grammar"] = file["grammar"].replace("iscool(o:object)", "not_ishot(o:object)")
    with pytest.raises(Unsupported, match="ishot"):
        FastGame(file)
