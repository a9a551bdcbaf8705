"""Run a batch of episodes with an agent and keep every step as a transition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from bepo.core.batch import RolloutBatch, Terminal
from bepo.core.errors import UserError
from bepo.core.seeds import derive_seed
from bepo.envs import Environment, Observation, Step, Task
from bepo.rollouts.agent import Agent


@dataclass
class Sample:
    """One response: its tokens, their log-probabilities under the sampling distribution, and its text."""

    prompt_ids: list[int]
    response_ids: list[int]
    logprobs: list[float]
    text: str
    allowed: list[list[int]] = field(default_factory=list)
    """The ids that each response token was restricted to; empty for no restriction."""


@dataclass
class Sampling:
    """How responses are drawn. The loss restricts the distribution in the same way, so importance ratios start at 1.

    Raises ``UserError`` for a temperature of 0 or less, and for ``top_p`` outside (0, 1].
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    """-1 keeps every token."""

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise UserError(f"temperature={self.temperature}: must be above 0 (0.01 is as good as greedy)")
        if not 0 < self.top_p <= 1:
            raise UserError(f"top_p={self.top_p}: choose above 0, up to 1")


class Policy(Protocol):
    """Whatever answers prompts."""

    def sample(
        self,
        prompts: Sequence[str],
        choices: Sequence[tuple[str, ...]],
        sampling: Sampling,
        seed: int,
        images: Sequence[np.ndarray | None] | None = None,
    ) -> list[Sample]:
        """Return one response for each prompt; every draw follows from ``seed``.

        ``choices`` are the admissible actions, for policies that keep to them. ``images`` are the pictures that the
        prompts show, (H, W, 3) uint8 each.
        """
        ...


@dataclass
class _Episode:
    """The bookkeeping of one running episode."""

    task: Task
    group: int
    member: int
    history: list[tuple[str, str]] = field(default_factory=list)
    rows: list[dict] = field(default_factory=list)
    done: bool = False


class Prompts(NamedTuple):
    """What the episodes that go on ask the policy; the lists are as long as there are such episodes."""

    episodes: list[int]  # which episodes ask
    texts: list[str]
    choices: list[tuple[str, ...]]  # admissible actions
    images: list[np.ndarray | None]
    observations: list[Observation]


class EpisodeBatch:
    """Episodes that run side by side: ``prompts``, then ``step`` with a response for each, until no prompt is left."""

    def __init__(self, env: Environment, agent: Agent, places: Sequence[tuple[Task, int, int]]) -> None:
        """Start one episode for each of ``places``, which are its task, its group and its number in the group."""
        self._env, self._agent = env, agent
        self._episodes = [_Episode(*place) for place in places]
        self._running = env.start([episode.task for episode in self._episodes])

    def prompts(self) -> Prompts:
        """Return the prompts of the episodes that are not over."""
        active = [i for i, episode in enumerate(self._episodes) if not episode.done]
        observations = [self._running.observations[i] for i in active]
        texts = [
            self._agent.prompt(self._env.prompt, self._running.instructions[i], observation, self._episodes[i].history)
            for i, observation in zip(active, observations)
        ]
        return Prompts(
            active, texts, [o.admissible for o in observations], [o.image for o in observations], observations
        )

    def step(self, prompts: Prompts, samples: Sequence[Sample]) -> None:
        """Act as the responses say, and add a row to each episode that acted."""
        parsed = [self._agent.parse(self._env, sample.text) for sample in samples]
        actions = {i: action for i, (action, _, _) in zip(prompts.episodes, parsed)}
        steps = self._running.step(actions)
        for i, observation, sample, (_, words, valid) in zip(prompts.episodes, prompts.observations, samples, parsed):
            episode = self._episodes[i]
            terminal = _terminal(steps[i], len(episode.rows) + 1, self._env.horizon)
            episode.done = terminal != Terminal.NONE
            episode.history.append((observation.text, words))
            episode.rows.append(_row(episode, observation, sample, steps[i], terminal, valid))

    @property
    def rows(self) -> list[dict]:
        """The transitions so far, as ``RolloutBatch.from_rows`` takes them."""
        return [row for episode in self._episodes for row in episode.rows]


def collect(
    env: Environment,
    agent: Agent,
    policy: Policy,
    tasks: Sequence[Task],
    group_size: int,
    sampling: Sampling,
    seed: int,
) -> RolloutBatch:
    """Run ``group_size`` trajectories of each task, all stepped together; one group for each task, in the same order.

    Every draw follows from ``seed``. An episode that reaches ``env.horizon`` steps, or whose environment breaks, ends
    as a truncation.
    """
    episodes = EpisodeBatch(env, agent, [(task, g, k) for g, task in enumerate(tasks) for k in range(group_size)])
    for step in range(env.horizon):
        prompts = episodes.prompts()
        if not prompts.episodes:
            break
        samples = policy.sample(prompts.texts, prompts.choices, sampling, derive_seed(seed, step), prompts.images)
        episodes.step(prompts, samples)
    return RolloutBatch.from_rows(episodes.rows)


def _terminal(step: Step, taken: int, horizon: int) -> Terminal:
    if step.terminal == Terminal.NONE and (step.broken or taken >= horizon):
        return Terminal.TRUNCATION
    return step.terminal


def _row(
    episode: _Episode, observation: Observation, sample: Sample, step: Step, terminal: Terminal, valid: bool
) -> dict:
    return {
        "uid": episode.group,
        "traj": episode.member,
        "t": len(episode.rows),
        "task": episode.task.id,
        "obs": observation.key,
        "next": step.observation.key,
        "r": step.reward,
        "done": None if terminal == Terminal.NONE else terminal.name,
        "valid": valid,
        "task_score": step.task_score,
        "broken": step.broken,
        "prompt_ids": sample.prompt_ids,
        "response_ids": sample.response_ids,
        "logprobs": sample.logprobs,
        "allowed": sample.allowed,
        "image": observation.image,
    }
