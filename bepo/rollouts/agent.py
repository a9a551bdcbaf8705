"""The agent around the language model: it builds prompts, and reads actions from responses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from bepo.core.settings import Settings, setting
from bepo.envs import IMAGE, Environment, Observation, PromptText

_CJK = re.compile(r"[\u4e00-\u9fff]")
_ACTION = re.compile(r"<action>(.*?)</action>", re.DOTALL | re.IGNORECASE | re.ASCII)
_MARK = "Action:"


COMPACT_WORDS = ("then", "now", "step")
"""The words of compact prompts that do not come from the environment, for built-in tokenizers."""


class ParsedResponse(NamedTuple):
    """The action of a response, and whether its form is valid."""

    action: str | None  # for the environment; None: the response has no readable action
    text: str  # for the history in later prompts
    valid: bool  # whether the response has the required form


@dataclass
class Agent(Settings):
    """Builds one user message for each step, after verl-agent's protocol, and reads actions from responses."""

    style: Literal["full", "brief", "compact"] = "full"
    """``full`` is verl-agent's prompt; ``brief`` has the rules, the actions and the observation in few words, for small
    pretrained models; ``compact`` is for tiny models with few words."""
    reasoning: bool = setting(False, neutral=True)
    """Whether a brief-style prompt asks for a short reason before the action. Then the action follows ``Action:``."""
    list_actions: bool = setting(True, neutral=True)
    """Whether a brief-style prompt lists the admissible actions."""
    history_length: int = setting(2, at_least=0)
    """Number of past steps in the prompt."""
    history_observations: bool = True
    """Whether the history shows past observations, not only past actions."""
    history_limit: int = setting(13_000, at_least=0)
    """A full-style prompt with more characters drops the history (verl-agent's rule for WebShop)."""
    require_think: bool = True
    """Whether a full-style response without <think></think> is invalid."""
    reject_cjk: bool = True
    """Whether a response with a Chinese character is invalid."""

    group = "agent"
    method_version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.style != "brief":
            self.refuse_idle(("reasoning", "list_actions"), f"agent.style={self.style}", instead="agent.style=brief")

    @property
    def shows_actions(self) -> bool:
        """Whether prompts list the admissible actions."""
        return self.style == "full" or (self.style == "brief" and self.list_actions)

    @property
    def reads_bare_actions(self) -> bool:
        """Whether a response that is an action, without tags or a reason, has the required form."""
        return self.style != "full" and not (self.style == "brief" and self.reasoning)

    def prompt(
        self,
        text: PromptText,
        instruction: str,
        observation: Observation,
        history: Sequence[tuple[str, str]],
    ) -> str:
        """Return the user message of a step; ``history`` has every past (observation, action) of the episode.

        A prompt has one picture, that of the current observation. Past ones are left out.
        """
        shown = history[-self.history_length :] if self.history_length else []
        recent = [(self._past(seen), action) for seen, action in shown]
        if self.style == "compact":
            return self._compact(instruction, observation, recent, len(history))
        if self.style == "brief":
            return self._brief(text, instruction, observation, recent)
        prompt = _full(text, instruction, observation, recent, len(history))
        if recent and len(prompt) > self.history_limit:
            prompt = _full(text, instruction, observation, [], len(history))
        return prompt

    def _past(self, seen: str) -> str | None:
        """Return the text of a past observation for the prompt; None: it is not shown."""
        return None if not self.history_observations or seen == IMAGE else seen.replace(IMAGE, "")

    def parse(self, env: Environment, response: str) -> ParsedResponse:
        """Read an action from a response.

        A response is valid if its form is, even if the action is inadmissible (verl-agent): it has <action> and <think>
        tags, no Chinese characters, and words that the environment can read as an action. An environment that reads
        actions without case (``reads_case``) gets the text in lower case.
        """
        if self.reads_bare_actions:
            text = response.strip()
            action = env.parse_action(text)
            return ParsedResponse(action, text, action is not None)
        if self.style == "brief":
            before, mark, after = response.rpartition(_MARK)
            text = (after if mark else before).strip()
            action = env.parse_action(text) if mark else None
            return ParsedResponse(action, text, action is not None)
        said = response if env.reads_case else response.lower()  # may become longer: "İ" becomes two characters
        tagged = _ACTION.search(said)
        if tagged:
            text = tagged.group(1).strip()
        else:
            text = said[max(len(said) - env.untagged_tail, 0) :]
        action = env.parse_action(text)
        valid = tagged is not None and action is not None
        if self.require_think:
            valid &= "<think>" in response and "</think>" in response
        if self.reject_cjk:
            valid &= _CJK.search(response) is None
        return ParsedResponse(action, text, valid)

    def _brief(
        self, text: PromptText, instruction: str, observation: Observation, recent: Sequence[tuple[str | None, str]]
    ) -> str:
        """Return the rules, the task, past steps, the actions, and the observation.

        What changes most comes last, so that prompts have long common prefixes.
        """
        parts = [text.rules]
        if instruction:
            parts.append(f"Task: {instruction}")
        for seen, action in recent:
            parts.append(f"Before: {seen}\nAction: {action}" if seen is not None else f"Before: {action}")
        if self.list_actions and observation.admissible:
            parts.append(f"Actions: {', '.join(observation.admissible)}.")
        if self.reasoning:
            parts.append(f"Give a reason in one short sentence, then write {_MARK} and one action.")
        else:
            parts.append("Answer with one action.")
        return "\n".join([*parts, f"Now:\n{observation.text}"])

    def _compact(
        self, instruction: str, observation: Observation, recent: Sequence[tuple[str | None, str]], taken: int
    ) -> str:
        """Return lines with the task, past steps, ``now`` and the observation, ``step`` and the number of steps taken.

        Rules and admissible actions are left out.
        """
        parts = [instruction] if instruction else []
        for seen, action in recent:
            parts.append(f"{seen} then {action}" if seen is not None else f"then {action}")
        return "\n".join([*parts, f"now {observation.text}", f"step {taken}"])


def _full(
    text: PromptText,
    instruction: str,
    observation: Observation,
    recent: Sequence[tuple[str | None, str]],
    taken: int,
) -> str:
    parts = [f"{text.role} {text.rules}"]
    if instruction:
        parts.append(f"Your task: {instruction}")
    if recent:
        parts.append(f"You have taken {taken} steps. The last {len(recent)}:")
        for number, (seen, action) in enumerate(recent, start=taken - len(recent) + 1):
            before = f"Observation {number}: '{seen}', " if seen is not None else ""
            parts.append(f"[{before}Action {number}: '{action}']")
    parts.append(f"You are at step {taken + 1}. Current observation:\n{observation.text}")
    if observation.admissible:
        parts.append("Admissible actions: [" + ", ".join(f"'{a}'" for a in observation.admissible) + "].")
    chosen = "choose one admissible action" if observation.admissible else "choose an action"
    parts.append(
        "Reason step by step about the current situation inside <think> </think>. "
        f"Then {chosen} and give it inside <action> </action>."
    )
    return "\n".join(parts)
