"""The interface between a run and a backend: the local engine gives the same results as its parts."""

from dataclasses import replace

import numpy as np
import torch

from bepo.credit.grpo import GRPO
from bepo.policies.tiny import Tiny
from bepo.rollouts.collect import collect
from bepo.training import Optimisation
from bepo.training.backends import backends
from bepo.training.backends.local import Local
from bepo.training.learner import LocalLearner
from tests.training.test_warm_start import setup_of


def test_backends_are_found_by_their_files():
    assert backends()["local"] is Local


def test_the_local_engine_changes_no_bit(tmp_path):
    given = setup_of(Tiny(warm_start=None, hidden_size=32, num_hidden_layers=1), tmp_path)
    given = replace(given, training=Optimisation(learning_rate=1e-3, minibatch_size=16), updates=2)
    engine = Local().start(given)
    policy = given.policy.build(given.env, given.agent, "cpu")
    learner = LocalLearner(policy, given.loss, given.training, given.sampling)
    tasks = given.task_sets["train"].tasks[:4]
    for seed in range(2):
        rollouts = engine.collect(tasks, 4, given.sampling, seed)
        batch = collect(given.env, given.agent, policy, tasks, 4, given.sampling, seed)
        np.testing.assert_array_equal(rollouts.batch.tokens.ids, batch.tokens.ids)
        np.testing.assert_array_equal(rollouts.batch.tokens.logprob, batch.tokens.logprob)
        assert engine.prepare_batch(rollouts) is rollouts and rollouts.seconds == {}
        advantage = np.repeat(GRPO()(batch).advantage, batch.tokens.response_length)
        assert engine.update(rollouts, advantage, seed, None) == learner.update(batch, advantage, seed)
    for name, value in policy.model.state_dict().items():
        assert torch.equal(engine.policy.model.state_dict()[name], value), name
    assert engine.metadata["backend"] == "local" and engine.metadata["world_size"] == 1
