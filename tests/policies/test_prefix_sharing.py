"""The prefix tree gives the same numbers as the padded path, up to float32 rounding.

The padded path in float64 is the truth. What the tree computes in float64 must agree with it to many digits; in float32
it may be as far from it as the padded path in float32, times a small factor.
"""

import copy
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bepo.core.tokens import Tokens
from bepo.envs.alfworld import ALFWorld
from bepo.envs.sokoban import Sokoban
from bepo.envs.webshop import WebShop
from bepo.losses.ppo_clip import PPOClip
from bepo.policies.lm.batching import response_mask
from bepo.policies.lm.language_model import LanguageModel
from bepo.policies.lm.prefix_sharing import PrefixSharingModel
from bepo.policies.tiny import Tiny
from bepo.rollouts.agent import Agent
from bepo.rollouts.collect import Sampling, collect
from bepo.rollouts.task_sets import task_set
from bepo.training import CriticSettings, Optimisation
from bepo.training.critic import Critic
from bepo.training.learner import LocalLearner

AGENT = Agent(style="compact", history_observations=False)
SAMPLING = Sampling(temperature=0.7)
VOCABULARY = 12
ENVIRONMENTS = {
    "sokoban": Sokoban(horizon=5),
    "webshop": WebShop(products=150, goals=60, horizon=5, rendering="compact", suggestions=3),
    "alfworld": ALFWorld(max_receptacles=8, horizon=5, rendering="compact"),
}


@cache
def policies(architecture, layers=3):
    """Policies with weights so wide that no two tokens are alike."""
    config = Tiny(
        warm_start=None,
        architecture=architecture,
        hidden_size=32,
        num_hidden_layers=layers,
        intermediate_size=48,
        initializer_range=0.2,
    )
    found = config.build(Sokoban(), AGENT, "cpu")
    with torch.no_grad():  # weights of norms and biases are drawn as 1 and 0
        generator = torch.Generator().manual_seed(0)
        for parameter in found.model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return paths(found)


class Paths(NamedTuple):
    """One policy by either path, in either precision."""

    tree: PrefixSharingModel
    tree64: PrefixSharingModel
    padded: LanguageModel
    padded64: LanguageModel


def paths(tree):
    both = [LanguageModel(copy.deepcopy(tree.model), tree.tokenizer, 256, 10, tree.constrained) for _ in range(2)]
    tree64 = copy.copy(tree)
    tree64.model = copy.deepcopy(tree.model).double()
    both[1].model.double()
    for module in both[1].model.modules():
        if type(module).__name__.endswith("RMSNorm"):  # transformers' own computes in float32 whatever it is given
            module.forward = partial(rms_norm, module)
    return Paths(tree, tree64, *both)


def rms_norm(norm, x):
    return torch.nn.functional.rms_norm(x, norm.weight.shape, norm.weight, norm.variance_epsilon)


def computed(policy, tokens, weight):
    """Log-probabilities and entropies, and the gradient of a weighted sum of them, each as one vector."""
    log_probs = policy.log_probs(tokens, range(len(tokens.response_length)), SAMPLING)
    numbers = torch.cat([log_probs.logprob[log_probs.mask], log_probs.entropy[log_probs.mask]]).double()
    policy.model.zero_grad()
    (numbers * torch.from_numpy(weight)).sum().backward()
    gradient = torch.cat([p.grad.flatten().double() for p in policy.model.parameters()])
    return numbers.detach(), gradient


def error(found, truth):
    """The largest difference of numbers, and the relative difference of gradients."""
    norm = truth[1].norm().clamp(min=1e-6)
    return np.array([(found[0] - truth[0]).abs().max().item(), ((found[1] - truth[1]).norm() / norm).item()])


def compare(paths, tokens, well_conditioned=True):
    """Compare both paths. The gradients of a few tokens may cancel each other, and leave the rounding of float32."""
    weight = np.random.default_rng(0).normal(size=2 * len(tokens.logprob))
    tree, tree64, padded, truth = (computed(policy, tokens, weight) for policy in paths)
    assert (error(tree64, truth) <= [1e-10, 1e-9]).all()
    within = error(tree, truth) <= 3 * error(padded, truth) + [2e-6, 1e-6]
    assert within[0] and (within[1] or not well_conditioned)


@st.composite
def batches(draw):
    """Prompts with nothing, a prefix or everything in common; with and without choices."""
    token = st.integers(4, 4 + draw(st.sampled_from([1, 2, VOCABULARY])))
    beginnings = draw(st.lists(st.lists(token, min_size=1, max_size=9), min_size=1, max_size=3))
    constrained, rows = draw(st.booleans()), []
    for _ in range(draw(st.integers(1, 6))):
        prompt = draw(st.sampled_from(beginnings)) + draw(st.lists(token, max_size=4))
        response = draw(st.lists(token, min_size=1, max_size=3))
        others = [draw(st.lists(token, max_size=3)) if constrained else [] for _ in response]
        allowed = [sorted({t, *more}) for t, more in zip(response, others)] if constrained else []
        row = {"prompt_ids": prompt, "response_ids": response, "logprobs": [0.0] * len(response), "allowed": allowed}
        rows.append(row)
    return Tokens.pack(rows)


@given(batches(), st.sampled_from(["qwen2", "qwen3"]), st.sampled_from([1, 2, 3]))
def test_log_probabilities_entropies_and_gradients(tokens, architecture, layers):
    compare(policies(architecture, layers), tokens, well_conditioned=False)


@given(batches(), st.sampled_from(["qwen2", "qwen3"]))
def test_values_of_a_critic(tokens, architecture):
    transitions = np.arange(len(tokens.response_length))
    asked = response_mask(tokens, transitions)
    tree, tree64, padded, truth = (
        policy.hidden(tokens, transitions, asked, policy.model.base_model).detach().double()
        for policy in policies(architecture)
    )
    assert (tree64 - truth).abs().max() <= 1e-10
    assert (tree - truth).abs().max() <= 3 * (padded - truth).abs().max() + 2e-6


def test_a_token_without_an_alternative_costs_nothing_and_is_certain():
    row = {"prompt_ids": [5, 6], "response_ids": [7, 8], "logprobs": [0.0, 0.0], "allowed": [[7], [8]]}
    log_probs = policies("qwen2").tree.log_probs(Tokens.pack([row, row]), [0, 1], SAMPLING)
    assert not log_probs.logprob.any() and not log_probs.entropy.any() and log_probs.mask.all()
    log_probs.logprob.sum().backward()


# --- rollouts -----------------------------------------------------------------------------------------------


@cache
def rollouts(name, constrained):
    """One policy with both paths, and rollouts that it samples with each of them."""
    env = ENVIRONMENTS[name]
    config = Tiny(
        warm_start=None,
        hidden_size=32,
        initializer_range=0.2,
        max_prompt_length=256,
        max_response_length=10,
        constrained=constrained,
    )
    found = paths(config.build(env, AGENT, "cpu"))
    tasks = task_set(env, "train", 2).tasks
    both = [collect(env, AGENT, p, tasks, 3, Sampling(), 0).language for p in (found.tree, found.padded)]
    return found, *both


cases = pytest.mark.parametrize("constrained", [True, False])
environments = pytest.mark.parametrize("name", list(ENVIRONMENTS))


@cases
@environments
def test_the_same_seed_gives_the_same_tokens(name, constrained):
    _, ours, theirs = rollouts(name, constrained)
    np.testing.assert_array_equal(ours.ids, theirs.ids)
    np.testing.assert_array_equal(ours.allowed_ids, theirs.allowed_ids)
    np.testing.assert_allclose(ours.logprob, theirs.logprob, atol=1e-5)


@cases
@environments
def test_rollouts(name, constrained):
    found, tokens, _ = rollouts(name, constrained)
    compare(found, tokens)


@environments
def test_an_update_with_kl(name):
    """The first optimiser step, away from the reference: its statistics are those of the padded path."""
    both, tokens, _ = rollouts(name, True)
    found = [updated(policy, tokens) for policy in (both.padded, both.tree)]
    assert found[1].keys() == found[0].keys() and found[0]["kl"] > 1e-3
    assert found[1] == pytest.approx(found[0], rel=2e-4, abs=2e-6)


def updated(policy, tokens):
    policy = copy.copy(policy)
    policy.model = copy.deepcopy(policy.model)
    n = len(tokens.response_length)
    settings = Optimisation(minibatch_size=n, learning_rate=1e-3, kl_coef=0.1)
    learner = LocalLearner(policy, PPOClip(), settings, Sampling())
    with torch.no_grad():
        for i, parameter in enumerate(policy.model.parameters()):
            generator = torch.Generator().manual_seed(i)
            parameter.add_(0.02 * torch.randn(parameter.shape, generator=generator))
    advantage = np.random.default_rng(0).normal(size=len(tokens.logprob))
    return learner.update(Batch(tokens), advantage, seed=0)


class Batch:
    """The inputs of a learner from a rollout batch."""

    def __init__(self, tokens):
        self.language = tokens

    def __len__(self):
        return len(self.language.response_length)


@environments
def test_a_critic_step(name):
    both, tokens, _ = rollouts(name, True)
    transitions = np.arange(len(tokens.response_length))
    returns = np.random.default_rng(0).normal(size=len(tokens.logprob))
    tokens.value = np.zeros(len(tokens.logprob), np.float32)
    found = []
    for policy in (both.padded, both.tree):
        critic = Critic(policy, CriticSettings(learning_rate=1e-2))
        steps = [critic.step(tokens, returns, transitions, 10**6) for _ in range(3)]
        found.append([x for step in steps for x in step.values()])
        assert critic.values(tokens, 300).shape == returns.shape
    assert found[1] == pytest.approx(found[0], rel=1e-3)
