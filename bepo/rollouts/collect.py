"""Run a batch of episodes with an agent and keep every step as a transition."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple, Protocol, Self

import numpy as np
from jaxtyping import Bool

from bepo.core.batch import RolloutBatch, Terminal
from bepo.core.errors import UserError, briefly
from bepo.core.phases import report_within
from bepo.core.seeds import derive_seed
from bepo.envs import Environment, Observation, Step, Task
from bepo.envs._checks import observed, start_checked, step_checked
from bepo.rollouts.agent import Agent, ParsedResponse


@dataclass
class Sample:
    """One response: its tokens, their log-probabilities under the sampling distribution, and its text."""

    prompt_ids: list[int]
    response_ids: list[int]
    logprobs: list[float]
    text: str
    allowed: list[list[int]] = field(default_factory=list)
    """The IDs that each response token was restricted to; empty: no restriction."""
    entropies: list[float] = field(default_factory=list)
    """Entropy, in nats, of the distribution of each response token; empty: unknown."""
    energies: list[float] = field(default_factory=list)
    """Squared norm of the gradient of each response token's log-probability by its logits; empty: unknown."""


@dataclass
class Sampling:
    """Sampling parameters. The loss restricts the distribution in the same way, so importance ratios start at 1.

    Raises ``UserError`` unless the temperature is above 0, ``top_p`` is in (0, 1], and ``top_k`` is at least 1 or -1.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    """-1 keeps every token."""

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise UserError(f"temperature={self.temperature}: must be above 0 (0.01 is almost greedy)")
        if not 0 < self.top_p <= 1:
            raise UserError(f"top_p={self.top_p}: must be above 0 and at most 1")
        if self.top_k < 1 and self.top_k != -1:
            raise UserError(f"top_k={self.top_k}: must be at least 1, or -1 for all tokens")


class Overlong(UserError):
    """A prompt has too many tokens for the policy. After the first step, it ends the episode as a truncation."""


class Policy(Protocol):
    """An object that answers prompts."""

    def sample(
        self,
        prompts: Sequence[str],
        choices: Sequence[tuple[str, ...]],
        sampling: Sampling,
        seed: int,
        images: Sequence[np.ndarray | None] | None = None,
    ) -> Sequence[Sample | Overlong]:
        """Return one response for each prompt, or ``Overlong`` if it is too long; every draw follows from ``seed``.

        ``choices`` are the admissible actions, for policies that are restricted to them. ``images`` are the pictures in
        the prompts, (H, W, 3) uint8 each.
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
    samples: list[Sample] = field(default_factory=list)
    done: bool = False
    expert_steps: float = math.nan  # from the current state


class Prompts(NamedTuple):
    """The prompts of all episodes that are not over; each list has one entry for each of them."""

    episodes: list[int]  # numbers of the episodes
    texts: list[str]
    choices: list[tuple[str, ...]]  # admissible actions
    images: list[np.ndarray | None]
    observations: list[Observation]


class EpisodeBatch:
    """Episodes that run side by side: call ``prompts``, then ``step`` with the responses, until no prompt is left.

    The end of its ``with`` block, or ``close``, frees what the episodes hold.
    """

    def __init__(
        self, env: Environment, agent: Agent, places: Sequence[tuple[Task, int, int]], needs: Iterable[str] = ()
    ) -> None:
        """Start one episode for each of ``places``: its task, its group and its number in the group.

        ``needs`` are optional columns that the rows must have. Raises ``UserError`` if they include ``expert_steps``
        and the environment cannot count these.
        """
        self._env, self._agent = env, agent
        self._episodes = [_Episode(*place) for place in places]
        self._ask = "expert_steps" in needs
        if self._ask and not env.counts_expert_steps:
            raise UserError(f"env={env.name} cannot count the steps that its expert needs (counts_expert_steps)")
        self._running = start_checked(env, [episode.task for episode in self._episodes])
        try:
            for i, episode in enumerate(self._episodes):
                episode.expert_steps = self._expert_steps(i)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free what the episodes hold, such as processes of the environment."""
        self._env.close_episodes(self._running)

    def prompts(self) -> Prompts:
        """Return the prompts of all episodes that are not over."""
        active = [i for i, episode in enumerate(self._episodes) if not episode.done]
        observations = [observed(self._env, self._running.observations[i]) for i in active]
        texts = [
            self._agent.prompt(self._env.prompt, self._running.instructions[i], observation, self._episodes[i].history)
            for i, observation in zip(active, observations)
        ]
        return Prompts(
            active, texts, [o.admissible for o in observations], [o.image for o in observations], observations
        )

    def step(self, prompts: Prompts, samples: Sequence[Sample | Overlong]) -> None:
        """Take the actions of the responses, and add a row to each episode that acted.

        An episode with a prompt that is too long ends with its last row. Raises ``Overlong`` if it is the first prompt.
        """
        asked = zip(prompts.episodes, prompts.observations, samples)
        answered = [(i, observation, sample) for i, observation, sample in asked if isinstance(sample, Sample)]
        for i, sample in zip(prompts.episodes, samples):
            if isinstance(sample, Overlong):
                self._cut(self._episodes[i], sample)
        if not answered:
            return
        parsed = [self._agent.parse(self._env, sample.text) for _, _, sample in answered]
        actions = {i: response.action for (i, _, _), response in zip(answered, parsed)}
        steps = step_checked(self._env, self._running, actions)
        for (i, observation, sample), response in zip(answered, parsed):
            episode = self._episodes[i]
            terminal = _terminal(steps[i], len(episode.rows) + 1, self._env.horizon)
            episode.done = terminal != Terminal.NONE
            episode.history.append((observation.text, response.text))
            episode.samples.append(sample)
            row = _row(episode, observation, sample, steps[i], terminal, response)
            if self._ask:
                row["expert_steps"] = episode.expert_steps
                episode.expert_steps = row["next_expert_steps"] = self._expert_steps(i, steps[i].terminal)
            episode.rows.append(row)

    @staticmethod
    def _cut(episode: _Episode, reason: Overlong) -> None:
        """End an episode before its next step, as a truncation."""
        if not episode.rows:
            raise reason
        episode.rows[-1]["done"], episode.done = Terminal.TRUNCATION.name, True

    def _expert_steps(self, i: int, terminal: Terminal = Terminal.NONE) -> float:
        """Return the steps that the expert needs from the current state of an episode; 0 after success."""
        if not self._ask or terminal == Terminal.FAILURE:
            return math.nan
        return 0.0 if terminal == Terminal.SUCCESS else self._running.expert_steps(i)

    @property
    def trajectories(self) -> list[list[dict]]:
        """The transitions of each episode so far, in the format of ``RolloutBatch.from_rows``."""
        return [episode.rows for episode in self._episodes]

    @property
    def rows(self) -> list[dict]:
        """The transitions so far, in the format of ``RolloutBatch.from_rows``."""
        return [row for rows in self.trajectories for row in rows]

    @property
    def samples(self) -> list[list[Sample]]:
        """The responses of each episode so far."""
        return [episode.samples for episode in self._episodes]


def collect(
    env: Environment,
    agent: Agent,
    policy: Policy,
    tasks: Sequence[Task],
    group_size: int,
    sampling: Sampling,
    seed: int,
    needs: Iterable[str] = (),
) -> RolloutBatch:
    """Run ``group_size`` trajectories of each task, and return one group for each task, in the same order.

    All episodes step together, and every draw follows from ``seed``. An episode ends as a truncation after
    ``env.horizon`` steps, if its environment breaks, or if its next prompt is too long. ``needs`` are optional columns
    of the batch (``Estimator.needs``); ``expert_steps`` takes time.
    """
    places = [(task, g, k) for g, task in enumerate(tasks) for k in range(group_size)]
    with EpisodeBatch(env, agent, places, needs) as episodes:
        play(episodes, policy, sampling, seed, env.horizon)
    return RolloutBatch.from_rows(episodes.rows)


def play(
    episodes: EpisodeBatch,
    policy: Policy,
    sampling: Sampling,
    seed: int,
    horizon: int,
    given: Sequence[Sequence[Sample]] | None = None,
) -> None:
    """Step all episodes to their ends. ``given`` has the first responses of each episode; the policy gives the others.

    Every draw follows from ``seed``.
    """
    for step in range(horizon):
        prompts = episodes.prompts()
        if not prompts.episodes:
            break
        report_within(f"{len(prompts.episodes)} episodes at step {step + 1} of at most {horizon}")
        known = [given[i][step : step + 1] if given else () for i in prompts.episodes]
        asked = [j for j, samples in enumerate(known) if not samples]
        texts, choices = [prompts.texts[j] for j in asked], [prompts.choices[j] for j in asked]
        images = [prompts.images[j] for j in asked]
        answers = policy.sample(texts, choices, sampling, derive_seed(seed, step), images) if asked else ()
        drawn = iter(_checked(answers, len(asked)))
        episodes.step(prompts, [samples[0] if samples else next(drawn) for samples in known])


def _checked(answers: Sequence[Sample | Overlong], n: int) -> Sequence[Sample | Overlong]:
    """Return the answers of a policy. Raises ``UserError`` unless they are ``n`` with a log-probability a token."""
    if len(answers) != n:
        raise UserError(f"the policy gave {len(answers)} responses to {n} prompts")
    for sample in answers:
        if isinstance(sample, Overlong):
            continue
        if not isinstance(sample, Sample) or not isinstance(sample.text, str):
            raise UserError(f"the policy's response must be a Sample with a text, not {briefly(sample)}")
        if not (n_tokens := len(sample.response_ids)) or n_tokens != len(sample.logprobs):
            raise UserError(f"the policy's response has {n_tokens} tokens and {len(sample.logprobs)} log-probabilities")
        if not all(map(math.isfinite, sample.logprobs)):
            raise UserError(f"the policy's log-probabilities must be finite, found {briefly(sample.logprobs)}")
    return answers


def overlong(batch: RolloutBatch, horizon: int) -> Bool[np.ndarray, " M"]:
    """Return the mask of the trajectories whose next prompt was too long: truncated without another cause."""
    cut = batch.terminal[batch.last] == Terminal.TRUNCATION
    return cut & ~batch.broken & (batch.step[batch.last] + 1 < horizon)


def _terminal(step: Step, taken: int, horizon: int) -> Terminal:
    if step.terminal == Terminal.NONE and (step.broken or taken >= horizon):
        return Terminal.TRUNCATION
    return step.terminal


def _row(
    episode: _Episode,
    observation: Observation,
    sample: Sample,
    step: Step,
    terminal: Terminal,
    response: ParsedResponse,
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
        "valid": response.valid,
        "action": response.action,
        **({"entropy": fmean(sample.entropies)} if sample.entropies else {}),
        **({"energy": math.fsum(sample.energies)} if sample.energies else {}),
        "task_score": step.task_score,
        "broken": step.broken,
        "prompt_ids": sample.prompt_ids,
        "response_ids": sample.response_ids,
        "logprobs": sample.logprobs,
        "allowed": sample.allowed,
        "image": observation.image,
    }
