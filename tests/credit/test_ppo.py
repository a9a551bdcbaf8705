"""PPO with a critic: token-level GAE against a plain reference, and a critic that learns."""

import numpy as np
import pytest
import torch
from hypothesis import given

from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError
from bepo.credit.ppo import PPO
from bepo.envs.sokoban import Sokoban
from bepo.losses.ppo_clip import PPOClip
from bepo.policies.tiny import Tiny
from bepo.rollouts.agent import Agent
from bepo.rollouts.collect import Sampling, collect
from bepo.rollouts.task_sets import task_set
from bepo.testing.strategies import rollouts
from bepo.training import CriticSettings, Optimisation
from bepo.training.backends import Rollouts
from bepo.training.critic import clipped_value_loss
from bepo.training.learner import LocalLearner


def plain(sequences, gamma, lam):
    """GAE of ``[(rewards, values), ...]``, one float at a time."""
    out = []
    for rewards, values in sequences:
        following, after, advantages = 0.0, 0.0, []
        for r, v in zip(reversed(rewards), reversed(values)):
            following = r + gamma * after - v + gamma * lam * following
            after = v
            advantages.append(following)
        out += reversed(advantages)
    return out


@given(rows=rollouts())
def test_scopes_against_the_plain_recursion(rows):
    batch = RolloutBatch.from_rows(rows)
    reward = [r["r"] - 0.1 * (not r["valid"]) for r in rows]
    episodes = {}
    for i, row in enumerate(rows):
        episodes.setdefault((row["uid"], row["traj"]), []).append(i)
    total = {i: sum(rows[j]["r"] for j in ids) for ids in episodes.values() for i in ids}
    values = [list(map(np.float64, np.float32(r["values"]))) for r in rows]
    n = [len(v) for v in values]

    def credit(scope):
        return PPO(scope=scope, gamma=0.9, gae_lambda=0.7, whiten=False)(batch)

    single = [([0.0] * (n[i] - 1) + [total[i] - 0.1 * (not r["valid"])], values[i]) for i, r in enumerate(rows)]
    np.testing.assert_allclose(credit("response").token_advantage, plain(single, 0.9, 0.7), atol=1e-9)

    joined = [
        ([x for i in ids for x in [0.0] * (n[i] - 1) + [reward[i]]], [v for i in ids for v in values[i]])
        for ids in episodes.values()
    ]
    joint = credit("trajectory")
    np.testing.assert_allclose(joint.token_advantage, plain(joined, 0.9, 0.7), atol=1e-9)
    np.testing.assert_allclose(joint.token_return - joint.token_advantage, np.concatenate(values), atol=1e-9)

    turns = [([reward[i] for i in ids], [values[i][0] for i in ids]) for ids in episodes.values()]
    expected = np.repeat(plain(turns, 0.9, 0.7), n)
    np.testing.assert_allclose(credit("turn").token_advantage, expected, atol=1e-9)


def test_default_is_return_minus_value_whitened():
    """With gamma = lambda = 1 and scope response, PPO is a critic baseline."""
    base = {"uid": 0, "next": "x", "valid": True, "prompt_ids": [0], "logprobs": [0.0, 0.0], "response_ids": [1, 2]}
    rows = [
        base | {"traj": 0, "t": 0, "obs": "a", "r": 0.0, "done": None, "values": [1.0, 2.0]},
        base | {"traj": 0, "t": 1, "obs": "b", "r": 10.0, "done": "success", "values": [3.0, 4.0]},
    ]
    batch = RolloutBatch.from_rows(rows)
    raw = PPO(whiten=False)(batch)
    np.testing.assert_allclose(raw.token_advantage, [9, 8, 7, 6])
    np.testing.assert_allclose(raw.token_return, 10)
    white = PPO()(batch).token_advantage
    assert white.mean() == pytest.approx(0, abs=1e-9) and white.std() == pytest.approx(1, abs=1e-6)


def test_whitening_with_the_sample_deviation_is_verls():
    """The numbers are those of verl's ``masked_whiten``; tests/verl compares with verl itself."""
    row = {"uid": 0, "traj": 0, "t": 0, "obs": "a", "next": "x", "r": 10.0, "done": "success", "valid": True}
    tokens = {"prompt_ids": [0], "logprobs": [0.0] * 4, "response_ids": [1] * 4, "values": [1.0, 2.0, 3.0, 4.0]}
    batch = RolloutBatch.from_rows([row | tokens])
    np.testing.assert_allclose(
        PPO(std="sample")(batch).token_advantage, np.array([3, 1, -1, -3]) / np.sqrt(20 / 3), atol=1e-8
    )
    np.testing.assert_allclose(PPO()(batch).token_advantage, np.array([3, 1, -1, -3]) / np.sqrt(5), atol=1e-8)


def test_whitening_one_token_gives_zero():
    row = {"uid": 0, "traj": 0, "t": 0, "obs": "a", "next": "x", "r": 10.0, "done": "success", "valid": True}
    batch = RolloutBatch.from_rows([row | {"prompt_ids": [0], "logprobs": [0.0], "response_ids": [1], "values": [1.0]}])
    assert PPO(std="sample")(batch).token_advantage.tolist() == [0.0]


def test_value_loss_by_hand():
    """V_old 0, target 10, clip 0.5: moving V beyond 0.5 does not lower the loss, moving away raises it."""
    value = torch.tensor([[0.2, 2.0, -3.0, 5.0]])
    mask = torch.tensor([[True, True, True, False]])
    loss = clipped_value_loss(value, torch.zeros(1, 4), torch.full((1, 4), 10.0), mask, 0.5)
    torch.testing.assert_close(loss, torch.tensor([[9.8**2, 9.5**2, 13.0**2, 0.0]]))


def test_without_a_critic_it_says_so():
    row = {"uid": 0, "traj": 0, "t": 0, "obs": "a", "next": "b", "r": 0.0, "done": "failure", "valid": True}
    with pytest.raises(UserError, match="credit=ppo needs a critic"):
        PPO()(RolloutBatch.from_rows([row]))


def valued(learner, batch):
    return Rollouts(batch).with_values(learner.critic.values(batch.tokens, 16384)).batch


@pytest.mark.slow
def test_the_critic_learns_and_its_checkpoint_restores_it(tmp_path):
    env, agent = Sokoban(horizon=4), Agent(style="compact", history_observations=False)
    policy = Tiny(warm_start=None, hidden_size=32, num_hidden_layers=1).build(env, agent, "cpu")
    settings = Optimisation(
        learning_rate=1e-6, minibatch_size=32, critic=CriticSettings(learning_rate=3e-3, clip_eps=10.0)
    )
    learner = LocalLearner(policy, PPOClip(), settings, Sampling(), needs_critic=True)
    batch = collect(env, agent, policy, task_set(env, "train", 6).tasks, 4, Sampling(), 0)
    batch = valued(learner, batch)
    assert not batch.tokens.value.any()  # the head starts at 0
    losses = []
    for seed in range(60):
        batch = valued(learner, batch)
        credit = PPO(scope="trajectory")(batch)
        losses.append(learner.update(batch, credit.token_advantage, seed, credit.token_return)["value_loss"])
    assert losses[-1] < 0.6 * losses[0]
    before = valued(learner, batch).tokens.value
    learner.save(tmp_path)
    fresh = LocalLearner(
        Tiny(warm_start=None, hidden_size=32, num_hidden_layers=1).build(env, agent, "cpu"),
        PPOClip(),
        settings,
        Sampling(),
        needs_critic=True,
    )
    fresh.load(tmp_path)
    np.testing.assert_array_equal(valued(fresh, batch).tokens.value, before)


@pytest.mark.parametrize("scope", ["trajectory", "response", "turn"])
def test_responses_without_tokens_are_refused(scope):
    """Rewards and ends stand on a response's last token: an empty response would change that of another."""
    rows = [
        {"uid": 0, "traj": k, "t": 0, "obs": "s", "next": "e", "r": float(k), "valid": True, "done": "failure"}
        | {"prompt_ids": [0], "response_ids": [1] * k, "logprobs": [0.0] * k, "values": [0.5] * k}
        for k in range(2)
    ]
    with pytest.raises(UserError, match="a token in every response"):
        PPO(scope=scope)(RolloutBatch.from_rows(rows))
