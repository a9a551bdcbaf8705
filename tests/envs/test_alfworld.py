"""ALFWorld: generated games, the expert, the engine, the environment."""

import re
from random import Random

import pytest

from bepo.core.batch import Terminal
from bepo.envs.alfworld import ALFWorld, engine
from bepo.envs.alfworld.compare import commands, transcript
from bepo.envs.alfworld.engine import NOTHING_HAPPENS, CompiledGame, FastGame
from bepo.envs.alfworld.expert import Expert
from bepo.envs.alfworld.generate import SPLITS, TASK_TYPES, generate
from bepo.envs.alfworld.memo import Memo
from bepo.envs.alfworld.scenes import scene
from bepo.rollouts.task_sets import task_set
from tests.command import SHORT_START, python, rows, run
from tests.envs.alfworld_variants import original_like


def small(**settings) -> ALFWorld:
    return ALFWorld(max_receptacles=10, **settings)


def play_expert(game) -> tuple[FastGame, list[str]]:
    episode = FastGame(game.game_file)
    episode.reset()
    assert not episode.won
    expert, commands = Expert(episode, game.traj_data), []
    while not episode.won and len(commands) < 20:
        commands.append(expert.command())
        assert commands[-1] in episode.admissible
        assert episode.step(commands[-1]) != NOTHING_HAPPENS
    return episode, commands


def test_what_is_remembered_of_a_game_changes_nothing(monkeypatch):
    """Episodes that share a game give the transcripts and the facts of an engine that remembers nothing."""
    for number in range(12):
        game = generate("train", number, TASK_TYPES, 10)
        file = original_like(game.game_file, Random(number)) if number % 2 else game.game_file
        shared = CompiledGame(file)
        for episode in range(4):
            chosen = commands(shared, game.traj_data, Random(episode), 40)
            remembering, forgetful = FastGame(shared), FastGame(CompiledGame(file))
            ours = transcript(remembering, chosen[:20])
            twin = remembering.copy()
            ours += transcript(remembering, chosen)  # starts anew
            with monkeypatch.context() as patched:
                for memory in ("_states", "_instances", "_feedback"):
                    patched.setattr(engine, memory, Memo(0))
                assert ours == transcript(forgetful, chosen[:20]) + transcript(forgetful, chosen)
                assert everything(forgetful) == everything(remembering)
            assert [twin.step(command) for command in chosen[20:]] == [row[1] for row in ours[-20:]]
            assert everything(twin) == everything(remembering)


def everything(game: FastGame) -> dict[str, set]:
    """Return all facts of a game's state."""
    return {predicate: set(game.facts.all(predicate)) for predicate in game.game.start.bits}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("max_receptacles", [None, 8])
def test_every_generated_game_is_solved_by_the_expert(split, max_receptacles):
    for number in range(60):
        game = generate(split, number, TASK_TYPES, max_receptacles)
        episode, commands = play_expert(game)
        assert episode.won, game.name
        assert len(commands) <= 12


def test_games_follow_from_their_number_alone():
    code = (
        "from bepo.envs.alfworld.generate import generate, SPLITS; import hashlib;"
        "print(hashlib.sha256(''.join(generate(s, n).problem for s in SPLITS for n in range(12)).encode()).hexdigest())"
    )
    first, second = (python("-c", code, PYTHONHASHSEED=seed) for seed in ("0", "7"))
    assert first.returncode == second.returncode == 0 and first.stdout == second.stdout != ""


def test_games_are_distinct_and_scenes_keep_to_their_split():
    made = {split: [generate(split, n) for n in range(300)] for split in SPLITS}
    assert len({g.problem for games in made.values() for g in games}) == 900
    held_out = {n for low in (1, 201, 301, 401) for n in range(low, low + 6)}
    for split, games in made.items():
        scenes = {g.traj_data["scene"]["scene_num"] for g in games}
        assert scenes <= held_out if split == "valid_unseen" else not scenes & held_out
        assert {g.kind for g in games} == set(TASK_TYPES)


def test_smaller_scenes_keep_one_receptacle_of_every_type_first():
    whole, small = scene(30), scene(30, 12)
    assert len(small.receptacles) == 12 < len(whole.receptacles)
    assert set(small.types) == set(whole.types)


def test_the_environment_plays_a_task():
    env = small()
    (task,) = task_set(env, "train", 1).tasks
    episodes = env.start([task])
    first = episodes.observations[0]
    assert first.text.startswith("-= Welcome to TextWorld, ALFRED! =-") and first.text == first.key
    assert first.text.endswith(f"Your task is to: {episodes.instructions[0]}.")
    assert "help" not in first.admissible and "look" in first.admissible
    assert episodes.step({0: "fly to moon"})[0].observation.text == NOTHING_HAPPENS
    assert episodes.step({0: None})[0].observation.text == NOTHING_HAPPENS
    for _ in range(20):
        step = episodes.step({0: episodes.expert(0)})[0]
        if step.terminal == Terminal.SUCCESS:
            break
        assert (step.reward, step.task_score) == (0.0, 0.0)
    assert (step.terminal, step.reward, step.task_score) == (Terminal.SUCCESS, 10.0, 1.0)


def test_task_sets_of_the_splits_are_disjoint_and_prefixes():
    env = small()
    task_sets = {split: task_set(env, split, 60) for split in ("train", "validation", "test")}
    assert len({t.id for s in task_sets.values() for t in s.tasks}) == 180
    assert task_set(env, "train", 20).tasks == task_sets["train"].tasks[:20]
    assert {t.kind for t in task_sets["test"].tasks} == set(TASK_TYPES)


@pytest.mark.parametrize("test_split", ["valid_seen", "valid_unseen"])
def test_the_test_split_is_chosen_and_the_other_one_validates(test_split):
    env = small(test_split=test_split)
    folders = {s: {t.data["folder"] for t in task_set(env, s, 6).tasks} for s in ("train", "validation", "test")}
    assert folders["test"] == {test_split} and folders["train"] == {"train"}
    assert folders["validation"] == {"valid_seen", "valid_unseen"} - {test_split}


def test_every_word_of_an_observation_is_in_the_vocabulary():
    from bepo.policies.lm.tiny_model import build_tokenizer

    for settings in ({}, {"prompt_state": "augmented"}, {"rendering": "compact"}):
        env = small(**settings)
        tokenizer = build_tokenizer(env.prompt.vocabulary)
        tasks = task_set(env, "test", 30).tasks
        episodes = env.start(tasks)
        for _ in range(6):
            for i in range(len(tasks)):
                observation = episodes.observations[i]
                # The brackets of an augmented observation are not in the vocabulary.
                known = re.sub(r"[][]", "", observation.text.rpartition("Welcome")[2])
                for text in (known, episodes.instructions[i], *observation.admissible):
                    assert tokenizer.unk_token_id not in tokenizer.encode(text), text
            episodes.step({i: episodes.expert(i) for i in range(len(tasks)) if episodes.expert(i)})


@pytest.mark.slow
def test_a_whole_smoke_run(tmp_path):
    code, _, err = run("env=alfworld", f"results={tmp_path}", "tracking.mode=disabled", "updates=2", *SHORT_START)
    assert code == 0, err
    metrics = rows(tmp_path, "metrics")
    assert len(metrics) == 2 and max(r["train/first_ratio_error"] for r in metrics) < 1e-5
    assert {r["kind"] for r in rows(tmp_path, "episodes")} == set(TASK_TYPES)
    assert all(r["train/broken_episodes"] == 0 for r in metrics)
