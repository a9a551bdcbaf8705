"""The contract of all environments. Each check takes an environment with its settings."""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys
from dataclasses import asdict, replace
from itertools import islice
from typing import Any

from bepo.core.batch import Terminal
from bepo.envs import Environment, Episodes, Observation, Split, Step, Task, started
from bepo.rollouts.agent import Agent
from bepo.rollouts.task_sets import TaskSet

TASKS = 12
"""Number of tasks of a split that most checks play."""
_SPLITS: tuple[Split, ...] = ("train", "validation", "test")
_DIGEST_ELSEWHERE = """
import pickle, sys
from itertools import islice
from bepo.rollouts.task_sets import TaskSet
env = pickle.load(sys.stdin.buffer)
print(TaskSet("train", tuple(islice(env.tasks("train"), {tasks}))).digest)
"""


def tasks(env: Environment, split: Split = "train") -> list[Task]:
    """Return the first tasks of a split."""
    return list(islice(env.tasks(split), TASKS))


def play(env: Environment, chosen: list[Task], seed: int, steps: int = 6) -> list[Any]:
    """Return a transcript with random admissible actions, and some invalid or unknown ones."""
    rng = random.Random(seed)
    with started(env, chosen) as episodes:
        lines: list[Any] = [list(episodes.observations), list(episodes.instructions)]
        active = set(range(len(chosen)))
        for _ in range(steps):
            actions = {}
            for i in sorted(active):
                action = _action(episodes.observations[i], rng)
                actions[i] = rng.choice([env.parse_action(action)] * 8 + [None, env.parse_action("no such thing")])
            results = episodes.step(actions)
            assert set(results) == set(actions)
            lines.append(results)
            active -= {i for i, step in results.items() if _is_over(step)}
            if not active:
                break
        return lines


def _action(observation: Observation, rng: random.Random) -> str:
    """Return a random admissible action, or a random text if any text is an action."""
    return rng.choice(observation.admissible or ("left", "7", "2 5"))


def _is_over(step: Step) -> bool:
    return step.terminal != Terminal.NONE or step.broken


def check_tasks_are_json_distinct_and_in_a_fixed_order(env: Environment) -> None:
    """Each split has enough tasks, which differ, survive JSON, and come in the same order again."""
    for split in _SPLITS:
        first = tasks(env, split)
        assert len(first) == TASKS == len({t.id for t in first})
        assert [Task(**t) for t in json.loads(json.dumps([asdict(t) for t in first]))] == first
        assert tasks(replace(env), split) == first


def check_splits_are_disjoint(env: Environment) -> None:
    """No task is in two splits."""
    ids = [{t.id for t in islice(env.tasks(split), 60)} for split in _SPLITS]
    assert sum(map(len, ids)) == len(set.union(*ids))


def check_a_task_set_is_the_same_in_another_process(env: Environment) -> None:
    """The tasks depend neither on Python's hash seed nor on the process."""
    other = subprocess.run(
        [sys.executable, "-c", _DIGEST_ELSEWHERE.format(tasks=TASKS)],
        input=pickle.dumps(replace(env)),
        capture_output=True,
        check=True,
        env=os.environ | {"PYTHONHASHSEED": "123", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert other.stdout.decode().strip() == TaskSet("train", tuple(tasks(env))).digest


def check_a_used_environment_travels_to_another_process(env: Environment) -> None:
    """It can be pickled after use, and has the same tasks then."""
    play(env, tasks(env), seed=0, steps=1)
    assert tasks(pickle.loads(pickle.dumps(env))) == tasks(env)


def check_the_same_actions_give_the_same_episode(env: Environment) -> None:
    """Two episodes of a task with the same actions are equal."""
    assert repr(play(env, tasks(env), seed=1)) == repr(play(env, tasks(env), seed=1))


def check_episodes_share_no_state(env: Environment) -> None:
    """An episode does not depend on the other episodes of the batch."""
    chosen = tasks(env)[:3]
    with started(env, [chosen[0], chosen[1], chosen[0], chosen[2]]) as together, started(env, [chosen[0]]) as alone:
        _check_equal_alone(env, together, alone)


def _check_equal_alone(env: Environment, together: Episodes, alone: Episodes) -> None:
    rng, running = random.Random(2), {0, 1, 3}
    for _ in range(5):
        action = env.parse_action(_action(alone.observations[0], rng))
        expected = alone.step({0: action})[0]
        others = {i: env.parse_action(_action(together.observations[i], rng)) for i in sorted(running)}
        results = together.step({**others, 2: action})
        assert results[2] == expected
        running -= {i for i in running if _is_over(results[i])}
        if _is_over(expected):
            break


def check_observations_and_steps_have_their_types(env: Environment) -> None:
    """Observations are texts with a key, and every listed action runs itself."""
    observations, instructions, *rounds = play(env, tasks(env), seed=3)
    assert all(isinstance(text, str) for text in instructions)
    steps = [step for results in rounds for step in results.values()]
    for step in steps:
        assert isinstance(step.reward, float) and 0 <= step.task_score <= 1
        assert step.terminal in (Terminal.NONE, Terminal.SUCCESS, Terminal.FAILURE)
    running = [step.observation for step in steps if step.terminal == Terminal.NONE]
    for o in [*observations, *running]:
        assert isinstance(o, Observation) and isinstance(o.text, str) and isinstance(o.key, str) and o.key
        assert (o.admissible or env.free_text) and len(set(o.admissible)) == len(o.admissible)
    for action in dict.fromkeys(action for o in (*observations, *running) for action in o.admissible):
        assert env.parse_action(action) == action, f"the listed action {action!r} runs {env.parse_action(action)!r}"
        said = Agent().parse(env, f"<think></think><action>{action}</action>").action
        assert said == action, f"a full-style response with the listed action {action!r} runs {said!r}"


def check_the_expert_solves_every_task(env: Environment) -> None:
    """An expert, if there is one, solves every task within the time limit."""
    for split in ("train", "test") if env.has_expert else ():
        active, won = set(range(TASKS)), set()
        with started(env, tasks(env, split)) as episodes:
            for _ in range(env.horizon):
                if not active:
                    break
                for i, step in episodes.step({i: episodes.expert(i) for i in sorted(active)}).items():
                    if _is_over(step):
                        active.discard(i)
                    if step.terminal == Terminal.SUCCESS:
                        assert step.task_score == 1 and step.reward > 0
                        won.add(i)
        assert won == set(range(TASKS))


def check_an_expert_goes_on_from_any_state(env: Environment) -> None:
    """After two random steps the expert solves most unfinished tasks; it returns None in a dead end."""
    if not env.has_expert:
        return
    rng, won, lost = random.Random(4), 0, 0
    with started(env, tasks(env)) as episodes:
        for i in range(TASKS):
            for number in range(env.horizon):
                best = episodes.expert(i)
                if best is None:
                    break
                assert env.parse_action(best) is not None
                action = _action(episodes.observations[i], rng) if number < 2 else best
                step = episodes.step({i: action})[i]
                if _is_over(step):
                    won += step.terminal == Terminal.SUCCESS
                    lost += step.terminal == Terminal.FAILURE and number < 2
                    break
    assert lost < TASKS and won >= (TASKS - lost) / 2


def check_its_vocabulary_suffices_for_a_word_level_tokenizer(env: Environment) -> None:
    """Observations, instructions and actions have no word that ``prompt.vocabulary`` lacks.

    Each listed action also runs itself in the words of the tokenizer, which puts blanks between words.
    """
    from bepo.policies.lm.tiny_model import UNKNOWN, build_tokenizer

    tokenizer = build_tokenizer(env.prompt.vocabulary)
    rng = random.Random(5)
    with started(env, tasks(env)) as episodes:
        for i in range(TASKS):
            for _ in range(6):
                observation = episodes.observations[i]
                for text in (observation.text, episodes.instructions[i], *observation.admissible):
                    tokens = tokenizer.convert_ids_to_tokens(tokenizer.encode(text, add_special_tokens=False))
                    assert UNKNOWN not in tokens, text
                for action in observation.admissible:
                    said = tokenizer.decode(tokenizer.encode(action, add_special_tokens=False))
                    assert isinstance(said, str)  # for the type checker: one action gives one text
                    run = env.parse_action(said) or ""
                    assert "".join(run.split()) == "".join(action.split()), (
                        f"{said!r}, a tiny model's words for {action!r}, runs {run!r}"
                    )
                if _is_over(episodes.step({i: env.parse_action(_action(observation, rng))})[i]):
                    break
