"""Prompting methods for served models: direct, ReAct and Reflexion (RECONSTRUCTION: the paper has no prompts)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from bepo.core.settings import Settings, setting


@dataclass
class Prompting(Settings):
    """The prompting method of a served model. ``conf/prompting/`` has presets.

    ``direct`` is the agent of training (``bepo.rollouts.agent``). ``react`` (Yao et al., 2023) shows examples, then the
    whole episode with thoughts. ``reflexion`` (Shinn et al., 2023) tries a failed task again, and shows the model's
    reflections on earlier trials.
    """

    method: Literal["direct", "react", "reflexion"] = "direct"
    """``direct`` is the agent of training; ``reflexion`` is built on ReAct."""
    profile: Literal["table", "original"] = "table"
    """``table``: the protocol of the paper's tables (verl-agent's). ``original``: the protocol of the method's code."""
    thoughts: Literal["in_response", "own_step"] = "in_response"
    """``in_response``: a response has a thought, then an action. ``own_step``: a thought is a separate response, and
    the answer to it is "OK."."""
    exemplars: int = setting(1, at_least=0)
    """Number of examples: the expert's episodes on training tasks, of the same task type if there are types."""
    admissible: bool = True
    """Whether to list the admissible actions at each step."""
    calls: int | None = setting(None, at_least=1)
    """Maximum number of responses in a trial; null: the environment's horizon."""
    characters: int = setting(0, at_least=0)
    """Maximum number of characters in a prompt; 0: no limit. A longer prompt drops the beginning of the episode, not
    the examples."""
    stop_at_newline: bool = False
    """Whether responses end at the first newline."""
    trials: int = setting(10, at_least=1)
    """Maximum number of Reflexion's trials of a task; a solved task is not tried again."""
    memories: int = setting(3, at_least=0)
    """Number of latest reflections that Reflexion shows."""
    reflection_tokens: int = setting(256, at_least=1)
    """Maximum number of tokens of a reflection, which is drawn at temperature 0."""
    repeats_fail: bool = False
    """Whether a trial fails when the agent repeats an action (valid or not) or a thought twice in a row."""

    group = "prompting"
    method_version: ClassVar[int] = 2
