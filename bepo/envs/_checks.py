"""Checks of what the episodes of an environment return, before it becomes part of rollouts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from bepo.core.batch import Terminal
from bepo.core.errors import UserError, briefly, no_exit
from bepo.core.numbers import MOST_REWARD, plain_number
from bepo.envs import Environment, Episodes, Observation, Step, Task

_SURROGATE = re.compile("[\ud800-\udfff]")
_ENDS = (Terminal.NONE, Terminal.SUCCESS, Terminal.FAILURE)


def start_checked(env: Environment, tasks: list[Task]) -> Episodes:
    """Start one episode for each task. Raises ``UserError`` unless each has an observation and an instruction."""
    with no_exit(f"env={env.name}: its start"):
        episodes = env.start(tasks)
    try:
        for name in ("observations", "instructions"):
            if len(texts := getattr(episodes, name)) != len(tasks):
                raise _wrong(env, "start", name, texts, f"a list of {len(tasks)}")
        if wrong := [text for text in episodes.instructions if not _is_text(text)]:
            raise _wrong(env, "start", "instructions", wrong[0], "texts in Unicode")
    except BaseException:
        env.close_episodes(episodes)
        raise
    return episodes


@contextmanager
def started_checked(env: Environment, tasks: list[Task]) -> Iterator[Episodes]:
    """Start episodes as ``start_checked`` does, and close them when the ``with`` block ends."""
    episodes = start_checked(env, tasks)
    try:
        yield episodes
    finally:
        env.close_episodes(episodes)


def step_checked(env: Environment, episodes: Episodes, actions: Mapping[int, str | None]) -> dict[int, Step]:
    """Act in some episodes, and return plain and checked results.

    Raises ``UserError`` for a wrong one, for an action other than a text, and if ``observations`` were not updated.
    """
    for action in actions.values():
        if action is not None and not isinstance(action, str):
            raise _wrong(env, "parse_action", "action", action, "a text or None")
    with no_exit(f"env={env.name}: its step"):
        steps = episodes.step(actions)
    if not isinstance(steps, dict) or steps.keys() != actions.keys():
        raise _wrong(env, "step", "results", steps, f"a dictionary of the episodes {sorted(actions)}")
    checked = {i: _checked(env, step) for i, step in steps.items()}
    for i, seen in ((i, s.observation) for i, s in checked.items() if s.terminal == Terminal.NONE and not s.broken):
        shown = episodes.observations[i] if i < len(episodes.observations) else None
        if not isinstance(shown, Observation) or (shown.text, shown.key) != (seen.text, seen.key):
            text = shown.text if isinstance(shown, Observation) else shown
            raise _wrong(
                env, "episodes", f"observations[{i}] after a step", text, f"that of the step, {briefly(seen.text)}"
            )
    return checked


def observed(env: Environment, observation: Observation) -> Observation:
    """Return a checked observation with a picture of its own. Raises ``UserError`` for a wrong one."""
    if not isinstance(observation, Observation):
        raise _wrong(env, "episode", "observation", observation, "an Observation")
    for name in ("text", "key"):
        if not _is_text(vars(observation)[name]):
            raise _wrong(env, "observation", name, vars(observation)[name], "a text in Unicode")
    listed = observation.admissible
    if isinstance(listed, str) or not all(map(_is_text, listed)):
        raise _wrong(env, "observation", "admissible", listed, "texts in Unicode")
    image = observation.image
    if image is not None:
        if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
            raise _wrong(env, "observation", "image", image, "an array (H, W, 3) of uint8")
        image = image.copy()  # the environment may draw the next one into the same array
        image.flags.writeable = False
    return replace(observation, admissible=tuple(listed), image=image)


def _checked(env: Environment, step: Step) -> Step:
    if not isinstance(step, Step):
        raise _wrong(env, "step", "result", step, "a Step")
    reward = _number(env, "reward", step.reward)
    score = _number(env, "task_score", step.task_score)
    if not abs(reward) <= MOST_REWARD:
        raise _wrong(env, "step", "reward", reward, f"finite, at most {MOST_REWARD:g} in size")
    if not 0 <= score <= 1:
        raise _wrong(env, "step", "task_score", score, "from 0 to 1")
    if type(step.terminal) not in (Terminal, int) or step.terminal not in _ENDS:
        raise _wrong(env, "step", "terminal", step.terminal, "NONE, SUCCESS or FAILURE")
    return replace(
        step,
        observation=observed(env, step.observation),
        reward=reward,
        terminal=Terminal(step.terminal),
        task_score=score,
        broken=bool(_number(env, "broken", step.broken)),
    )


def _is_text(value: object) -> bool:
    """Return whether a value is a text that can be encoded. Half a surrogate pair, as of undecodable bytes, cannot."""
    return isinstance(value, str) and (value.isascii() or not _SURROGATE.search(value))


def _number(env: Environment, name: str, value: object) -> float:
    try:
        return float(plain_number(value))
    except ValueError:
        raise _wrong(env, "step", name, value, "a number") from None


def _wrong(env: Environment, where: str, name: str, value: Any, wanted: str) -> UserError:
    return UserError(f"env={env.name}: the {name} of its {where} is {briefly(value)}, must be {wanted}")
