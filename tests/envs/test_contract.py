"""The contract of all environments. A new file or folder in bepo/envs is tested without a change here."""

import json
import os
import pickle
import random
import subprocess
import sys
from dataclasses import asdict
from functools import cache
from itertools import islice

import pytest

from bepo.core.batch import Terminal
from bepo.envs import Environment, Observation, Task, environments
from bepo.rollouts.task_sets import TaskSet

QUICK = {  # settings that make a test short, and an expert's success certain
    "webshop": {"products": 150},
    "alfworld": {"max_receptacles": 8},
    "gymnasium": {"kwargs": {"map_name": None, "is_slippery": False}, "starts": "distinct"},
}
TASKS = 12


@cache
def made(name: str) -> Environment:
    cls = environments()[name]
    env = cls(**QUICK.get(name, {}))
    missing = env.missing()
    if missing is not None:
        pytest.skip(f"{name}: {missing}")
    return env


@cache
def tasks(name: str, split: str = "train") -> list[Task]:
    return list(islice(made(name).tasks(split), TASKS))


@pytest.fixture(params=sorted(environments()))
def name(request):
    made(request.param)
    return request.param


def act(env: Environment, observation: Observation, rng: random.Random) -> str:
    """Return a random admissible action, or a random text if any text is an action."""
    return rng.choice(observation.admissible or ("left", "7", "2 5"))


def over(step) -> bool:
    return step.terminal != Terminal.NONE


@pytest.fixture
def with_expert(name):
    if not made(name).has_expert:
        pytest.skip(f"{name} has no expert")
    return name


def play(name: str, chosen: list[Task], seed: int, steps: int = 6) -> list:
    """Return a transcript with random admissible actions, and some invalid or unknown ones."""
    env, rng = made(name), random.Random(seed)
    episodes = env.start(chosen)
    lines, active = [list(episodes.observations), list(episodes.instructions)], set(range(len(chosen)))
    for _ in range(steps):
        actions = {}
        for i in sorted(active):
            action = act(env, episodes.observations[i], rng)
            actions[i] = rng.choice([env.parse_action(action)] * 8 + [None, env.parse_action("no such thing")])
        results = episodes.step(actions)
        assert set(results) == set(actions)
        lines.append(results)
        active -= {i for i, step in results.items() if over(step)}
        if not active:
            break
    return lines


def test_tasks_are_json_distinct_and_in_a_fixed_order(name):
    for split in ("train", "validation", "test"):
        first = tasks(name, split)
        assert len(first) == TASKS == len({t.id for t in first})
        assert [Task(**t) for t in json.loads(json.dumps([asdict(t) for t in first]))] == first
        fresh = type(made(name))(**QUICK.get(name, {}))
        assert list(islice(fresh.tasks(split), TASKS)) == first


def test_splits_are_disjoint(name):
    ids = [{t.id for t in islice(made(name).tasks(split), 60)} for split in ("train", "validation", "test")]
    assert sum(map(len, ids)) == len(set.union(*ids))


def test_a_task_set_is_the_same_in_another_process(name):
    code = (
        "from itertools import islice; from bepo.envs import environments; from bepo.rollouts.task_sets import TaskSet;"
        f"env = environments()[{name!r}](**{QUICK.get(name, {})!r});"
        f"print(TaskSet('train', tuple(islice(env.tasks('train'), {TASKS}))).digest)"
    )
    command = [sys.executable, "-c", code]
    other = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONHASHSEED": "123"},
        encoding="utf-8",
    )
    assert other.stdout.strip() == TaskSet("train", tuple(tasks(name))).digest


def test_a_used_environment_travels_to_another_process(name):
    play(name, tasks(name), seed=0, steps=1)
    assert list(islice(pickle.loads(pickle.dumps(made(name))).tasks("train"), TASKS)) == tasks(name)


def test_the_same_actions_give_the_same_episode(name):
    assert repr(play(name, tasks(name), seed=1)) == repr(play(name, tasks(name), seed=1))


def test_episodes_share_no_state(name):
    """An episode does not depend on the other episodes of the batch."""
    env, chosen = made(name), tasks(name)[:3]
    together = env.start([chosen[0], chosen[1], chosen[0], chosen[2]])
    alone = env.start([chosen[0]])
    rng, running = random.Random(2), {0, 1, 3}
    for _ in range(5):
        action = env.parse_action(act(env, alone.observations[0], rng))
        expected = alone.step({0: action})[0]
        others = {i: env.parse_action(act(env, together.observations[i], rng)) for i in sorted(running)}
        results = together.step({**others, 2: action})
        assert results[2] == expected
        running -= {i for i in running if over(results[i])}
        if over(expected):
            break


def test_observations_and_steps_have_their_types(name):
    env = made(name)
    observations, instructions, *rounds = play(name, tasks(name), seed=3)
    assert all(isinstance(text, str) for text in instructions)
    steps = [step for results in rounds for step in results.values()]
    for step in steps:
        assert isinstance(step.reward, float) and 0 <= step.task_score <= 1
        assert step.terminal in (Terminal.NONE, Terminal.SUCCESS, Terminal.FAILURE)
    running = [step.observation for step in steps if step.terminal == Terminal.NONE]
    for o in [*observations, *running]:
        assert isinstance(o, Observation) and isinstance(o.text, str) and isinstance(o.key, str) and o.key
        assert (o.admissible or env.free_text) and len(set(o.admissible)) == len(o.admissible)
        assert all(env.parse_action(action) is not None for action in o.admissible)


def test_the_expert_solves_every_task(with_expert):
    name, env = with_expert, made(with_expert)
    for split in ("train", "test"):
        episodes = env.start(tasks(name, split))
        active, won = set(range(TASKS)), set()
        for _ in range(env.horizon):
            if not active:
                break
            for i, step in episodes.step({i: episodes.expert(i) for i in sorted(active)}).items():
                if over(step):
                    active.discard(i)
                if step.terminal == Terminal.SUCCESS:
                    assert step.task_score == 1 and step.reward > 0
                    won.add(i)
        assert won == set(range(TASKS))


def test_an_expert_goes_on_from_any_state(with_expert):
    """After two random steps the expert solves most unfinished tasks; it returns None in a dead end."""
    name, env, rng, won, lost = with_expert, made(with_expert), random.Random(4), 0, 0
    episodes = env.start(tasks(name))
    for i in range(TASKS):
        for number in range(env.horizon):
            best = episodes.expert(i)
            if best is None:
                break
            assert env.parse_action(best) is not None
            action = act(env, episodes.observations[i], rng) if number < 2 else best
            step = episodes.step({i: action})[i]
            if over(step):
                won += step.terminal == Terminal.SUCCESS
                lost += step.terminal == Terminal.FAILURE and number < 2
                break
    assert lost < TASKS and won >= (TASKS - lost) / 2


def test_its_vocabulary_suffices_for_a_word_level_tokenizer(name):
    """Observations, instructions and actions have no unknown words, in compact settings if there are such."""
    from bepo.policies.lm.tiny_model import UNKNOWN, build_tokenizer

    compact = {"webshop": {"rendering": "compact", "suggestions": 3}}.get(name, {})
    env = type(made(name))(**(QUICK.get(name, {}) | compact))
    tokenizer = build_tokenizer(env.prompt.vocabulary)
    episodes = env.start(tasks(name))
    rng = random.Random(5)
    for i in range(TASKS):
        for _ in range(6):
            observation = episodes.observations[i]
            for text in (observation.text, episodes.instructions[i], *observation.admissible):
                tokens = tokenizer.convert_ids_to_tokens(tokenizer.encode(text, add_special_tokens=False))
                assert UNKNOWN not in tokens, text
            if over(episodes.step({i: env.parse_action(act(env, observation, rng))})[i]):
                break
