"""Losses against hand-worked numbers, and updates of a tiny model."""

import copy

import numpy as np
import pytest
import torch

from bepo.core.batch import Tokens
from bepo.core.errors import UserError
from bepo.envs.sokoban import Sokoban
from bepo.losses.ppo_clip import PPOClip
from bepo.policies.lm.batching import padded_micro_batches
from bepo.policies.tiny import Tiny
from bepo.rollouts.agent import Agent
from bepo.rollouts.collect import Sampling, collect
from bepo.rollouts.task_sets import task_set
from bepo.training import Optimisation
from bepo.training.backends.local import Local
from bepo.training.learner import LocalLearner, low_var_kl

ENV = Sokoban(horizon=5)
AGENT = Agent(style="compact", history_observations=False)


def setting(**changes):
    policy = Tiny(warm_start=None, hidden_size=32, num_hidden_layers=1).build(ENV, AGENT, "cpu")
    learner = LocalLearner(policy, PPOClip(), Optimisation(**{"learning_rate": 1e-3, **changes}), Sampling())
    batch = collect(ENV, AGENT, policy, task_set(ENV, "train", 3).tasks, 4, Sampling(), 0)
    return policy, learner, batch


def per_token(batch, advantage):
    return np.repeat(advantage, batch.tokens.response_length)


@pytest.mark.parametrize(
    "ratio, advantage, expected",
    [
        (1.0, 2.0, -2.0),
        (1.1, 2.0, -2.2),
        (1.5, 2.0, -2.4),  # clipped at 1.2
        (0.5, 2.0, -1.0),
        (0.5, -2.0, 1.6),  # clipped at 0.8
        (1.5, -2.0, 3.0),
        (9.0, -2.0, 6.0),  # dual clip at 3
    ],
)
def test_clipped_loss_by_hand(ratio, advantage, expected):
    log = torch.log(torch.tensor([[ratio]]))
    mask = torch.ones(1, 1, dtype=torch.bool)
    loss, _ = PPOClip(clip_eps=0.2, dual_clip=3.0)(log, torch.zeros(1, 1), torch.tensor([[advantage]]), mask)
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_the_action_ratio_is_the_geometric_mean_of_its_tokens():
    """Ratios 4 and 1 (a third is masked) become 2 and 2, clipped at 1.2; tokens alone give 1.2 and 1."""
    log = torch.log(torch.tensor([[4.0, 1.0, 9.0]]))
    mask = torch.tensor([[True, True, False]])
    arguments = (log, torch.zeros(1, 3), torch.ones(1, 3), mask)
    action, _ = PPOClip(ratio="action")(*arguments)
    torch.testing.assert_close(action, torch.tensor([[-1.2, -1.2, 0.0]]))
    token, _ = PPOClip(ratio="token")(*arguments)
    torch.testing.assert_close(token, torch.tensor([[-1.2, -1.0, 0.0]]))


def test_masked_tokens_cost_nothing():
    log, mask = torch.randn(3, 4), torch.zeros(3, 4, dtype=torch.bool)
    loss, stats = PPOClip()(log, torch.randn(3, 4), torch.ones(3, 4), mask)
    assert not loss.any() and not low_var_kl(log, torch.randn(3, 4), mask).any()
    assert all(v == 0 for v in stats.values())


def test_low_var_kl():
    """exp(d) - d - 1 with d = reference - policy: 0 at equality, clamped at 10."""
    mask = torch.ones(1, 3, dtype=torch.bool)
    kl = low_var_kl(torch.zeros(1, 3), torch.tensor([[0.0, 1.0, 9.0]]), mask)
    torch.testing.assert_close(kl, torch.tensor([[0.0, np.e - 2, 10.0]], dtype=torch.float32))


def test_the_first_minibatch_starts_at_ratio_one():
    _, learner, batch = setting(minibatch_size=16)
    stats = learner.update(batch, per_token(batch, np.random.default_rng(0).normal(size=len(batch))), seed=0)
    assert stats["first_ratio_error"] < 1e-5
    assert stats["optimiser_steps"] == np.ceil(len(batch) / 16)


def test_micro_batches_change_nothing_but_rounding():
    advantage = None
    weights = []
    for max_tokens in (10**6, 150, 1):
        policy, learner, batch = setting(micro_batch_tokens=max_tokens)
        advantage = per_token(batch, np.random.default_rng(0).normal(size=len(batch)))
        learner.update(batch, advantage, seed=0)
        weights.append(copy.deepcopy(policy.model.state_dict()))
    for other in weights[1:]:
        for name, value in weights[0].items():
            torch.testing.assert_close(other[name], value, atol=2e-4, rtol=0)


def test_micro_batches_partition_the_transitions():
    _, _, batch = setting()
    transitions = np.random.default_rng(0).permutation(len(batch))[:-3]
    for max_tokens in (1, 100, 700, 10**6):
        parts = list(padded_micro_batches(batch.tokens, transitions, max_tokens))
        assert sorted(np.concatenate(parts)) == sorted(transitions)
        assert all(len(b) == 1 or len(b) * padded_width(batch.tokens, b) <= max_tokens for b in parts)


def padded_width(tokens, transitions):
    return tokens.prompt_length[transitions].max() + tokens.response_length[transitions].max()


def test_long_prompts_and_long_responses_do_not_share_a_batch():
    """Padded on opposite sides, the two are as wide as both together."""
    rows = [
        {"prompt_ids": [0] * p, "response_ids": [0] * r, "logprobs": [0.0] * r} for p, r in ((1000, 10), (10, 1000))
    ]
    assert [len(b) for b in padded_micro_batches(Tokens.pack(rows), np.arange(2), 2020)] == [1, 1]


def test_an_update_makes_rewarded_responses_likelier():
    policy, learner, batch = setting(kl_coef=0.0, entropy_coef=0.0)
    first = batch.tokens.ids[batch.tokens.transition_offset[:-1] + batch.tokens.prompt_length]
    advantage = np.where(first == np.bincount(first).argmax(), 1.0, -1.0)

    def mean_logprob():
        with torch.no_grad():
            chosen = np.flatnonzero(advantage > 0)
            return policy.log_probs(batch.tokens, chosen, Sampling()).logprob[:, 0].mean().item()

    before = mean_logprob()
    for seed in range(5):
        learner.update(batch, per_token(batch, advantage), seed)
    assert mean_logprob() > before + 0.05


def test_kl_pulls_back_to_the_reference():
    """Without advantage, a policy that has moved returns towards its reference."""
    policy, learner, batch = setting(kl_coef=1.0, entropy_coef=0.0, learning_rate=3e-3)
    with torch.no_grad():
        for p in policy.model.parameters():
            p.add_(0.05 * torch.randn(p.shape, generator=torch.Generator().manual_seed(0)))
    kls = [learner.update(batch, per_token(batch, np.zeros(len(batch))), seed)["kl"] for seed in range(8)]
    assert kls[-1] < 0.5 * kls[0]


def test_checkpoints_restore_weights_and_optimiser(tmp_path):
    policy, learner, batch = setting()
    advantage = per_token(batch, np.random.default_rng(0).normal(size=len(batch)))
    learner.update(batch, advantage, 0)
    learner.save(tmp_path)
    learner.update(batch, advantage, 1)
    expected = copy.deepcopy(policy.model.state_dict())
    fresh_policy, fresh, _ = setting()
    fresh.load(tmp_path)
    fresh.update(batch, advantage, 1)
    for name, value in expected.items():
        assert torch.equal(fresh_policy.model.state_dict()[name], value)


def test_errors_name_the_value():
    with pytest.raises(UserError, match=r"training\.minibatch_size=0"):
        Optimisation(minibatch_size=0)
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match=r"backend\.device=cuda"):
            Local(device="cuda").resolve()


def test_a_response_that_ends_at_the_limit_is_not_cut():
    from bepo.core.tokens import Tokens
    from bepo.runs.metrics import cut_share

    rows = [{"prompt_ids": [9], "response_ids": r, "logprobs": [0.0] * len(r)} for r in ([1, 2], [1, 7], [7])]
    assert cut_share(Tokens.pack(rows), 2, end_ids={7}) == pytest.approx(1 / 3)
    assert cut_share(Tokens.pack(rows), 2, end_ids={-1}) == pytest.approx(2 / 3)


def test_weights_that_are_not_finite_any_more_stop_the_update():
    _, learner, batch = setting(learning_rate=1e18, weight_decay=1e18, minibatch_size=4)
    with pytest.raises(UserError, match=r"training\.learning_rate=.* NaN"):
        learner.update(batch, per_token(batch, np.ones(len(batch))), seed=0)
