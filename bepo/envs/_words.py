"""The vocabulary of an environment whose texts are not known in advance, collected from some episodes."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterable, Sequence
from re import findall

from bepo.core.batch import Terminal
from bepo.envs import Episodes, Observation, Task

_PIECE = r"<[a-z]+>|[A-Za-z]?[a-z]+|[0-9]+|\S"
_EPISODES, _STEPS, _NUMBERS = 48, 24, 100


def pieces(text: str) -> list[str]:
    """Return the words of the tiny models' tokenizer in a text. Its responses have a blank between two of them."""
    return findall(_PIECE, text)


def seen_words(
    tasks: Iterable[Task],
    start: Callable[[Sequence[Task]], Episodes],
    act: Callable[[random.Random, Observation], str | None],
) -> list[str]:
    """Return the words of 48 episodes of at most 24 steps, every printable symbol, and the numbers below 100, sorted.

    ``act`` chooses the actions of these episodes. A tiny model reads all other words as unknown.
    """
    chosen = [task for task, _ in zip(tasks, range(_EPISODES))]
    episodes, rng, active = start(chosen), random.Random(0), set(range(len(chosen)))
    words: set[str] = {*string.digits, *string.ascii_letters, *string.punctuation, *map(str, range(_NUMBERS))}
    for _ in range(_STEPS):
        for text in (*episodes.instructions, *(o.text for o in episodes.observations)):
            words.update(pieces(text))
        actions = {i: act(rng, episodes.observations[i]) for i in sorted(active)}
        words.update(word for action in actions.values() for word in pieces(action or ""))
        steps = episodes.step(actions)
        words.update(word for step in steps.values() for word in pieces(step.observation.text))
        active -= {i for i, step in steps.items() if step.terminal != Terminal.NONE}
    return sorted(words)
