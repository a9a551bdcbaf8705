"""The format of ReAct's episodes: the words around observations, thoughts and actions (RECONSTRUCTION)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from bepo.envs import PromptText

_TOO_MUCH = re.compile(r"\n|Observation:")
"""The point from which a chat model continues with text that is not its turn."""


class Turn(NamedTuple):
    """One response, and the observation before it."""

    observation: str
    thought: str  # empty: no thought
    action: str  # empty: the response was only a thought, or unreadable


@dataclass(frozen=True)
class Grammar:
    """The default format, with thought and action in one response: ``Thought: ... Action: ...``."""

    ask: str = "Thought:"
    rules: str = (
        'Answer each observation with two lines. "Thought:" says in one or two sentences how to go on. "Action:" is '
        "one action, and nothing else."
    )

    def introduction(self, text: PromptText, examples: int) -> str:
        """Return the first message to the agent."""
        return f"{text.role} {text.rules}\n{self.rules}{_announce(examples)}"

    def task(self, instruction: str) -> str:
        """Return the first lines of an episode."""
        return f"Your task: {instruction}\n" if instruction else ""

    def observation(self, text: str) -> str:
        """Return an observation as a line."""
        return f"Observation: {text}\n"

    def turn(self, turn: Turn) -> str:
        """Return an observation, and the response to it."""
        return f"{self.observation(turn.observation)}Thought: {turn.thought}\nAction: {turn.action}\n"

    def read(self, response: str) -> tuple[str, str]:
        """Return the thought and the action of a response; a missing part is empty."""
        thought, label, action = response.partition("Action:")
        words = _first_line(action) if label else ""
        return " ".join(thought.removeprefix("Thought:").split("\n")[0].split()), words


@dataclass(frozen=True)
class CommandGrammar(Grammar):
    """ALFWorld's format in ReAct's code: a command follows ``>``; a thought is a command with the answer "OK."."""

    ask: str = ">"
    rules: str = "Interact with a household to solve a task."

    def introduction(self, text: PromptText, examples: int) -> str:
        """Return the first message to the agent."""
        return f"{self.rules}{_announce(examples)}"

    def task(self, instruction: str) -> str:
        """Return an empty text: the first observation contains the task."""
        return ""

    def observation(self, text: str) -> str:
        """Return an observation as it is."""
        return f"{text.strip()}\n"

    def turn(self, turn: Turn) -> str:
        """Return an observation, and the command after it."""
        return f"{self.observation(turn.observation)}> {turn.action or f'think: {turn.thought}'}\n"

    def read(self, response: str) -> tuple[str, str]:
        """Return the thought or the command, the other empty."""
        words = _first_line(response.strip().removeprefix(">")).split(">")[0].strip()
        return (words[6:].strip(), "") if words.lower().startswith("think:") else ("", words)


@dataclass(frozen=True)
class BracketGrammar(Grammar):
    """WebShop's format in ReAct's code: the answer to ``Action: think[...]`` is "OK."."""

    ask: str = "Action:"
    rules: str = "Webshop"

    def introduction(self, text: PromptText, examples: int) -> str:
        """Return the first message to the agent."""
        return self.rules

    def task(self, instruction: str) -> str:
        """Return the instruction."""
        return f"Instruction:\n{instruction}\n"

    def turn(self, turn: Turn) -> str:
        """Return an observation, and the action after it."""
        return f"{self.observation(turn.observation)}Action: {turn.action or f'think[{turn.thought}]'}\n"

    def read(self, response: str) -> tuple[str, str]:
        """Return the thought or the action, the other empty."""
        words = _first_line(response.strip().removeprefix("Action:"))
        thought = re.fullmatch(r"think\[(.*?)\]?", words, re.IGNORECASE)
        return (thought[1], "") if thought else ("", words)


GRAMMARS: dict[str, dict[str, Grammar]] = {
    "in_response": {"alfworld": Grammar(), "webshop": Grammar()},
    "own_step": {"alfworld": CommandGrammar(), "webshop": BracketGrammar()},
}
"""The formats of episodes, by ``prompting.thoughts`` and environment."""


def _announce(examples: int) -> str:
    if not examples:
        return ""
    return " Here is an example." if examples == 1 else f" Here are {examples} examples."


def _first_line(text: str) -> str:
    """Return the first line of a response, without the continuation that the model was not asked for."""
    return _TOO_MUCH.split(text.strip(), maxsplit=1)[0].strip()
