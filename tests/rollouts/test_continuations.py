"""Continuations of episodes: from every state the policy goes on as it would have gone on."""

import zlib
from itertools import islice

import numpy as np
import pytest

from bepo.core.errors import UserError
from bepo.envs.sokoban import Sokoban
from bepo.rollouts.agent import Agent
from bepo.rollouts.collect import Sample, Sampling, collect
from bepo.rollouts.continuations import collect_continued

ENV = Sokoban(observation="text", horizon=6)
AGENT = Agent(style="compact", history_observations=False)


class Policy:
    """Moves by the prompt alone (``random=False``), or at random."""

    def __init__(self, random: bool = False) -> None:
        self.random = random

    def sample(self, prompts, choices, sampling, seed, images=None):
        drawn = np.random.default_rng(seed).integers(4, size=len(prompts)) if self.random else map(_digest, prompts)
        moves = [("up", "down", "left", "right")[int(i) % 4] for i in drawn]
        return [Sample([1], [2], [-1.0], f"<action>{move}</action>") for move in moves]


def _digest(prompt: str) -> int:
    return zlib.crc32(prompt.encode())


def arguments(policy: Policy):
    return ENV, AGENT, policy, list(islice(ENV.tasks("train"), 3)), 2, Sampling(), 5


def test_a_policy_without_chance_continues_each_episode_to_its_own_end():
    batch = collect_continued(*arguments(Policy()), 3)
    for k in range(batch.n_trajectories):
        rewards = batch.reward[batch.trajectory == k]
        np.testing.assert_allclose(batch.extras["continuation"][batch.trajectory == k], rewards[::-1].cumsum()[::-1])


def test_the_episodes_are_those_without_continuations_and_further_episodes_differ():
    plain, batch = collect(*arguments(Policy(random=True))), collect_continued(*arguments(Policy(random=True)), 2)
    assert batch.action.tolist() == plain.action.tolist() and batch.state_key == plain.state_key
    rest = np.concatenate([r[::-1].cumsum()[::-1] for r in np.split(batch.reward, batch.last[:-1] + 1)])
    assert (batch.extras["continuation"] != rest).any()


def test_columns_of_other_estimators_are_there_too():
    batch = collect_continued(*arguments(Policy()), 1, {"continuation", "expert_steps"})
    assert {"continuation", "expert_steps", "next_expert_steps"} <= batch.extras.keys()


def test_an_environment_that_does_not_repeat_itself_is_refused(monkeypatch):
    starts, start = [], Sokoban.start

    def other_boards(self, tasks):
        starts.append(1)
        return start(self, tasks if len(starts) == 1 else tasks[::-1])

    monkeypatch.setattr(Sokoban, "start", other_boards)
    with pytest.raises(UserError, match="env=sokoban: the same actions led to another state"):
        collect_continued(*arguments(Policy()), 1)
