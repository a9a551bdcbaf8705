"""How a served model is asked: directly, as ReAct or as Reflexion (a reconstruction: the paper has no prompts)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from bepo.core.settings import Settings, setting


@dataclass
class Prompting(Settings):
    """Which agent is around a served model. ``conf/prompting/`` has the profiles.

    ``direct`` is the agent of training (``bepo.rollouts.agent``). ``react`` (Yao et al., 2023) shows the whole episode,
    with thoughts, behind examples. ``reflexion`` (Shinn et al., 2023) tries a task again and shows what it wrote about
    the trials that failed.
    """

    method: Literal["direct", "react", "reflexion"] = "direct"
    """The agent of training, ReAct, or Reflexion around ReAct."""
    profile: Literal["table", "original"] = "table"
    """``table``: the protocol of the paper's tables (verl-agent's); ``original``: that of the method's own code."""
    thoughts: Literal["in_response", "own_step"] = "in_response"
    """A thought stands before the action in one response; or it is a response of its own, answered "OK."."""
    exemplars: int = setting(1, at_least=0)
    """Episodes of the environment's expert on training tasks, of the task's type where there are types."""
    admissible: bool = True
    """List the admissible actions at each step."""
    calls: int | None = setting(None, at_least=1)
    """A trial ends after so many responses; null: after the environment's horizon."""
    characters: int = setting(0, at_least=0)
    """A longer prompt keeps its examples and the end of the episode, so many characters in all; 0: no limit."""
    stop_at_newline: bool = False
    """End responses at the first newline."""
    trials: int = setting(10, at_least=1)
    """Reflexion tries a task so many times at most; a task that is solved is not tried again."""
    memories: int = setting(3, at_least=0)
    """Reflexion shows so many of its last reflections."""
    reflection_tokens: int = setting(256, at_least=1)
    """A reflection, which is drawn at temperature 0, has at most so many tokens."""
    repeats_fail: bool = False
    """A trial fails when the agent says twice in a row the same action, be it valid or not, or the same thought."""

    group = "prompting"
    method_version: ClassVar[int] = 2
