"""The vocabulary of an environment whose texts are not known in advance, collected from some episodes."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from itertools import islice
from re import findall

from bepo.core.batch import Terminal
from bepo.envs import Environment, Observation
from bepo.envs._checks import started_checked, step_checked

_PIECE = r"<[a-z]+>|[A-Za-z]?[a-z]+|[0-9]+|\S"
_EPISODES, _STEPS, _NUMBERS = 48, 24, 100


def pieces(text: str) -> list[str]:
    """Return the words of the tiny models' tokenizer in a text. Its responses have a blank between two of them."""
    return findall(_PIECE, text)


def seen_words(
    env: Environment,
    act: Callable[[random.Random, Observation], str | None],
) -> list[str]:
    """Return the sorted words of 48 training episodes, and every printable symbol and number below 100.

    ``act`` chooses the actions of these episodes, which have at most 24 steps. A tiny model reads all other words as
    unknown.
    """
    chosen = list(islice(env.tasks("train"), _EPISODES))
    rng, active = random.Random(0), set(range(len(chosen)))
    words = {*string.digits, *string.ascii_letters, *string.punctuation, *map(str, range(_NUMBERS))}
    with started_checked(env, chosen) as episodes:
        for _ in range(_STEPS):
            for text in (*episodes.instructions, *(o.text for o in episodes.observations)):
                words.update(pieces(text))
            actions = {i: act(rng, episodes.observations[i]) for i in sorted(active)}
            words.update(word for action in actions.values() for word in pieces(action or ""))
            steps = step_checked(env, episodes, actions)
            words.update(word for step in steps.values() for word in pieces(step.observation.text))
            active -= {i for i, step in steps.items() if step.terminal != Terminal.NONE or step.broken}
    return sorted(words)
