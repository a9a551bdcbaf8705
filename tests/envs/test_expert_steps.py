"""The number of steps that an expert still needs: counted on copies, and equal to the steps of following it."""

import math
from itertools import islice

import numpy as np
import pytest

from bepo.core.batch import Terminal
from bepo.core.errors import UserError
from bepo.envs import environments
from bepo.envs._walk import MOST_STEPS, steps_to_success
from bepo.rollouts.agent import Agent
from bepo.rollouts.collect import Sample, Sampling, collect

ENVIRONMENTS = {
    "sokoban": {},
    "webshop": {"rendering": "compact", "suggestions": 3},
    "alfworld": {"rendering": "compact"},
}


class RandomPolicy:
    """Takes an admissible action at random."""

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def sample(self, prompts, choices, sampling, seed, images=None):
        return [Sample([1], [2], [0.0], str(self.rng.choice(actions))) for actions in choices]


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_step_of_the_expert_brings_success_one_step_nearer(name):
    env = environments.make(name, **ENVIRONMENTS[name])
    tasks = list(islice(env.tasks("train"), 6))
    episodes = env.start(tasks)
    for i in range(len(tasks)):
        left = episodes.expert_steps(i)
        before = episodes.observations[i]
        assert left > 0 and episodes.expert_steps(i) == left and episodes.observations[i] is before
        for expected in range(int(left), 0, -1):
            assert episodes.expert_steps(i) == expected
            terminal = episodes.step({i: episodes.expert(i)})[i].terminal
        assert terminal == Terminal.SUCCESS


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_rollouts_have_them_only_where_asked_and_nothing_else_changes(name):
    env, agent = environments.make(name, **ENVIRONMENTS[name]), Agent(style="compact")
    tasks = list(islice(env.tasks("train"), 3))
    plain, told = (
        collect(env, agent, RandomPolicy(), tasks, 2, Sampling(), 0, needs) for needs in ((), ("expert_steps",))
    )
    assert "expert_steps" not in plain.extras
    for column in ("state", "next_state", "reward", "terminal", "action"):
        np.testing.assert_array_equal(getattr(plain, column), getattr(told, column))
    inner = told.terminal == Terminal.NONE
    following = np.flatnonzero(inner) + 1
    after = told.extras["next_expert_steps"]
    np.testing.assert_array_equal(after[inner], told.extras["expert_steps"][following])
    assert (after[told.terminal == Terminal.SUCCESS] == 0).all()
    assert np.isnan(after[told.terminal == Terminal.FAILURE]).all()


class Circle:
    """An expert that cycles through three states for ever."""

    def __init__(self):
        self.place = 0

    def key(self):
        return self.place % 3

    def advance(self):
        self.place += 1
        assert self.place <= MOST_STEPS


def test_an_expert_that_goes_in_circles_knows_no_way():
    known = {}
    assert math.isnan(steps_to_success(Circle(), known)) and set(known) == {0, 1, 2}


def test_an_environment_without_them_is_refused():
    env = environments.make("sokoban")
    silent = type("Silent", (type(env),), {"counts_expert_steps": False})()
    with pytest.raises(UserError, match="counts_expert_steps"):
        collect(
            silent, Agent(), RandomPolicy(), list(islice(env.tasks("train"), 1)), 1, Sampling(), 0, ["expert_steps"]
        )
