"""The one interface to transformers models, on tiny ones with real code paths."""

import numpy as np
import pytest
import torch

from bepo.agents import Agent
from bepo.collect import Sampling, collect
from bepo.envs.sokoban import DIRECTIONS, Sokoban
from bepo.errors import UserError
from bepo.panels import panel
from bepo.policies.pretrained import Pretrained
from bepo.policies.tiny import Tiny

ENV = Sokoban(horizon=6)
COMPACT = Agent(style="compact", history_observations=False)
SAMPLINGS = [Sampling(), Sampling(temperature=0.4), Sampling(temperature=1.3, top_p=0.7), Sampling(top_k=3)]


def tiny(**settings):
    return Tiny(warm_start=None, **settings).build(ENV, COMPACT, "cpu")


def rollouts(policy, sampling, seed=0):
    return collect(ENV, COMPACT, policy, panel(ENV, "train", 4).tasks, 3, sampling, seed)


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_scoring_uses_the_distribution_of_sampling(constrained, sampling):
    """So that importance ratios are 1 before the first optimiser step."""
    policy = tiny(constrained=constrained)
    group = rollouts(policy, sampling)
    scores = policy.score(group.tokens, range(len(group)), sampling)
    found = scores.logprob[scores.mask].detach().numpy()
    np.testing.assert_allclose(np.exp(found - group.tokens.logprob), 1, atol=1e-5)
    assert scores.mask.sum() == len(group.tokens.logprob)


def test_another_distribution_gives_other_ratios():
    """The test above can fail."""
    policy = tiny()
    group = rollouts(policy, Sampling())
    scores = policy.score(group.tokens, range(len(group)), Sampling(temperature=0.4))
    found = scores.logprob[scores.mask].detach().numpy()
    assert np.abs(np.exp(found - group.tokens.logprob) - 1).max() > 0.05


def test_constrained_sampling_yields_admissible_actions_only():
    group = rollouts(tiny(constrained=True), Sampling())
    assert group.valid.all()
    policy = tiny(constrained=True)
    samples = policy.sample(["now"] * 50, [("left", "up")] * 25 + [DIRECTIONS] * 25, Sampling(), 0)
    assert {s.text for s in samples[:25]} == {"left", "up"}
    assert {s.text for s in samples[25:]} == set(DIRECTIONS)


def test_entropy_of_a_constrained_choice():
    """Four admissible actions, then a forced end: entropies between 0 and log 4, with finite gradients."""
    policy = tiny(constrained=True)
    group = rollouts(policy, Sampling())
    scores = policy.score(group.tokens, range(len(group)), Sampling())
    assert (scores.entropy[:, 0] <= np.log(4) + 1e-6).all() and (scores.entropy[:, 0] > 0).all()
    torch.testing.assert_close(scores.entropy[:, 1], torch.zeros(len(group)))
    (scores.logprob.sum() + scores.entropy.sum()).backward()
    assert all(torch.isfinite(p.grad).all() for p in policy.model.parameters())


def test_seeds_decide():
    policy = tiny()
    a, b, c = (rollouts(policy, Sampling(), seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(a.tokens.ids, b.tokens.ids)
    assert len(a) != len(c) or (a.tokens.ids != c.tokens.ids).any()


def test_padding_changes_nothing():
    """A record scores the same alone and beside longer ones."""
    policy = tiny()
    group = rollouts(policy, Sampling())
    together = policy.score(group.tokens, range(len(group)), Sampling()).logprob
    for i in (0, len(group) // 2, len(group) - 1):
        alone = policy.score(group.tokens, [i], Sampling()).logprob[0]
        torch.testing.assert_close(together[i][: len(alone)], alone, atol=1e-5, rtol=0)


def test_tokenizer_splits_boards_into_cells_and_keeps_words():
    tokenizer = tiny().tokenizer
    pieces = tokenizer.convert_ids_to_tokens(tokenizer.encode("now ##_X\n√PSO step 3 <act>"))
    assert pieces == ["now", "#", "#", "_", "X", "√", "P", "S", "O", "step", "3", "<act>"]
    assert tokenizer.decode(tokenizer.encode("up down")) == "up down"
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("kitchen")) == ["<unk>"]


def test_a_saved_policy_loads_as_pretrained(tmp_path):
    policy = tiny()
    policy.save(tmp_path)
    again = Pretrained(path=str(tmp_path), max_prompt=128, max_response=2).build(ENV, COMPACT, "cpu")
    assert again.encode("now ##_X\nup") == policy.encode("now ##_X\nup")
    group = rollouts(policy, Sampling())
    found = [p.score(group.tokens, range(len(group)), Sampling()).logprob for p in (policy, again)]
    torch.testing.assert_close(*found)


def test_errors_name_value_and_choices(tmp_path):
    with pytest.raises(UserError, match="no/such/model"):
        Pretrained(path="no/such/model").build(ENV, COMPACT, "cpu")
    with pytest.raises(UserError, match=r"agent\.style=compact"):
        Tiny().build(ENV, Agent(), "cpu")
    with pytest.raises(UserError, match=r"policy\.hidden=65"):
        Tiny(hidden=65)
    with pytest.raises(UserError, match=r"policy\.max_prompt is 8"):
        rollouts(tiny(max_prompt=8), Sampling())
