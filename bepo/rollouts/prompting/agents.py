"""Agents around a served model: they build the prompt of the next step, and read its response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from bepo.core.errors import unknown_choice
from bepo.envs import IMAGE, Environment, Observation
from bepo.rollouts.agent import Agent
from bepo.rollouts.prompting import Prompting
from bepo.rollouts.prompting.transcript import GRAMMARS, Grammar, Turn


class Move(NamedTuple):
    """The action or thought of a response."""

    action: str | None  # for the environment; None: the response has no readable action
    valid: bool  # whether the response has the required form
    said: str  # the action or thought in the model's words; without either, the response
    thought: bool = False  # whether it is only a thought, which the environment does not see


class Trial(Protocol):
    """An agent in one episode."""

    def prompt(self, observation: Observation) -> str:
        """Return the user message of the next step."""
        ...

    def read(self, observation: Observation, response: str) -> Move:
        """Read the response to the last prompt, and remember it."""
        ...


@dataclass
class DirectTrial:
    """The agent of training. It shows the last steps."""

    env: Environment
    agent: Agent
    instruction: str
    history: list[tuple[str, str]] = field(default_factory=list)

    def prompt(self, observation: Observation) -> str:
        """Return the user message of the next step."""
        return self.agent.prompt(self.env.prompt, self.instruction, observation, self.history)

    def read(self, observation: Observation, response: str) -> Move:
        """Read the action between its tags."""
        parsed = self.agent.parse(self.env, response)
        self.history.append((observation.text, parsed.text))
        return Move(parsed.action, parsed.valid, said=parsed.text or response.strip())


@dataclass
class ReActTrial:
    """ReAct: it shows examples, in Reflexion also memories of earlier trials, and the whole episode with thoughts."""

    env: Environment
    settings: Prompting
    grammar: Grammar
    instruction: str
    examples: Sequence[str]
    memories: Sequence[str] = ()
    turns: list[Turn] = field(default_factory=list)

    def prompt(self, observation: Observation) -> str:
        """Return the user message of the next step: instructions, examples, memories, and the episode so far."""
        head, episode = self._head(), self.episode(observation)
        limit = self.settings.characters
        if limit and len(head) + len(episode) > limit:
            episode = episode[-max(limit - len(head), 1) :]
        return head + episode

    def _head(self) -> str:
        parts = [self.grammar.introduction(self.env.prompt, len(self.examples)), *self.examples]
        if self.memories:
            notes = (f"Trial {number}:\n{memory}" for number, memory in enumerate(self.memories))
            parts += ["Your memory for the task below:", *notes]
        return "\n\n".join([*parts, "Here is the task.\n"])

    def episode(self, observation: Observation | None) -> str:
        """Return the episode so far; with an observation, it ends where the next response begins."""
        text = self.grammar.task(self.instruction) + "".join(map(self.grammar.turn, self.turns))
        if observation is None:
            return text
        text += self.grammar.observation(observation.text)
        if self.settings.admissible and observation.admissible:
            text += f"Admissible actions: [{', '.join(observation.admissible)}].\n"
        return text + self.grammar.ask

    def read(self, observation: Observation, response: str) -> Move:
        """Read a thought or an action."""
        thought, words = self.grammar.read(response)
        action = self.env.parse_action(words) if words else None
        self.turns.append(Turn(observation.text, thought, words))
        if thought and not words and self.settings.thoughts == "own_step":
            return Move(None, True, f"think: {thought}", thought=True)
        return Move(action, action is not None, said=words or response.strip())


def grammar_of(env: Environment, settings: Prompting) -> Grammar:
    """Return the format of ReAct's episodes in an environment. Raises ``UserError`` if no format exists."""
    known = GRAMMARS[settings.thoughts]
    if env.name not in known:
        raise unknown_choice(f"environment of prompting.method={settings.method}", env.name, known)
    return known[env.name]


def reflection_prompt(settings: Prompting, examples: Sequence[str], trial: ReActTrial) -> str:
    """Return Reflexion's prompt after a failed trial (RECONSTRUCTION)."""
    parts = [
        "You see an agent's attempt at a task that it did not solve. Do not summarise the environment. Write, in a "
        "few sentences, what went wrong in the last attempt and a short plan of what to do next time, with the names "
        "of objects and places that matter.",
        *(["Two examples:", *examples] if examples else []),
        f"Attempt:\n{trial.episode(None).replace(IMAGE, '')}STATUS: FAIL",
        *(["Plans from earlier attempts:", *trial.memories] if trial.memories else []),
        "New plan:",
    ]
    return "\n\n".join(parts)
