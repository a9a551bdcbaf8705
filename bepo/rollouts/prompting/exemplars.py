"""Examples for prompts: episodes of the environment's expert with thoughts that we add (RECONSTRUCTION)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice

from bepo.core.batch import Terminal
from bepo.core.errors import UserError
from bepo.envs import Environment, Episodes, started
from bepo.rollouts.prompting import Prompting
from bepo.rollouts.prompting.transcript import Grammar, Turn

_MOST_TASKS = 200  # search at most so many training tasks
_PRODUCT = re.compile(r"b0\w{8}$")  # the asin of a product
_MOVES = ("go ", "open ", "close ", "look", "examine ", "inventory")  # ALFWorld's commands that are not part of a plan


class Exemplars:
    """Examples of an environment, made from training tasks, never from test tasks."""

    def __init__(self, env: Environment, settings: Prompting, grammar: Grammar) -> None:
        self._env, self._settings, self._grammar = env, settings, grammar
        self.of_kind = lru_cache(maxsize=None)(self._of_kind)
        self.reflections = lru_cache(maxsize=1)(self._reflections)

    def _of_kind(self, kind: str) -> tuple[str, ...]:
        """Return the examples for a task of this type: solved tasks, of the same type if there are any."""
        return tuple(islice(self._written(kind), self._settings.exemplars))

    def _reflections(self) -> tuple[str, ...]:
        """Return two examples of reflections: an episode that is cut before its goal, and the plan that it needed."""
        attempts = []
        for instruction, turns in islice(self._solved(""), 2):
            half = turns[: max(len(turns) // 2, 1)]
            text = self._grammar.task(instruction) + "".join(map(self._grammar.turn, half))
            rest = ", then ".join(turn.action for turn in turns[len(half) :] if turn.action)
            plan = f"New plan: I stopped before the task was done. Next time I go on in the same way, then {rest}."
            attempts.append(f"Attempt:\n{text}STATUS: FAIL\n{plan}")
        return tuple(attempts)

    def _written(self, kind: str) -> Iterator[str]:
        for instruction, turns in self._solved(kind):
            yield self._grammar.task(instruction) + "".join(map(self._grammar.turn, turns)).rstrip()

    def _solved(self, kind: str) -> Iterator[tuple[str, list[Turn]]]:
        """Yield instruction and turns of training tasks that the expert solves, tasks of this type first."""
        if not self._env.has_expert:
            raise UserError(
                f"env={self._env.name} has no expert to make examples with: choose prompting=direct or "
                "prompting.exemplars=0"
            )
        tasks = list(islice(self._env.tasks("train"), _MOST_TASKS))
        for task in sorted(tasks, key=lambda task: task.kind != kind):
            with started(self._env, [task]) as episodes:
                played = self._play(episodes)
            if played:
                yield played

    def _play(self, episodes: Episodes) -> tuple[str, list[Turn]] | None:
        instruction, seen = episodes.instructions[0], []
        for _ in range(self._env.horizon):
            action = episodes.expert(0)
            if action is None:
                return None
            seen.append((episodes.observations[0].text, action))
            if (terminal := episodes.step({0: action})[0].terminal) != Terminal.NONE:
                own_step = self._settings.thoughts == "own_step"
                return (instruction, _with_thoughts(seen, own_step)) if terminal == Terminal.SUCCESS else None
        return None


def _with_thoughts(seen: Sequence[tuple[str, str]], own_step: bool) -> list[Turn]:
    """Return the turns of an episode, with a plan as the first thought and the rest of the plan after each part."""
    goals = [(action, _words(action)) for _, action in seen if not action.startswith(_MOVES)]
    turns: list[Turn] = []
    left, due = list(goals), True
    for observation, action in seen:
        plan = (
            f"To solve the task, I still have to {', then '.join(w for _, w in left)}."
            if due
            else f"Next I {_words(action)}."
        )
        if own_step:
            turns += [Turn(observation, plan, "")] if due else []
            turns.append(Turn("OK." if due else observation, "", action))
        else:
            turns.append(Turn(observation, plan, action))
        due = bool(left) and action == left[0][0]
        left = left[1:] if due else left
    return turns


def _words(action: str) -> str:
    """Return an action in the words of a thought, without numbers of objects and products, which are not seen yet."""
    kind, _, rest = action.rstrip("]").partition("[")
    if kind == "search":
        return "search for what the task describes"
    if kind == "click":
        return (
            "buy it" if rest == "buy now" else "open a product that fits" if _PRODUCT.match(rest) else f"choose {rest}"
        )
    return re.sub(r" \d+", "", action)
