"""``env=gymnasium`` with environments that describe themselves in odd ways: one line, or a clear value."""

from itertools import islice

import pytest

from bepo.core.errors import UserError
from bepo.envs import environments

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed: pip install 'gymnasium>=1.3,<2'")


class Odd(gymnasium.Env):
    """An environment that describes itself in odd ways."""

    action_space, observation_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(3)

    def __init__(self, render_mode=None, **said):
        vars(self).update(said)

    def reset(self, *, seed=None, options=None):
        return vars(self).get("said", 0), {}

    def step(self, action):
        return vars(self).get("said", 0), 0.0, False, False, {}

    def close(self):
        raise SystemExit("close failed")


gymnasium.register("Odd-v0", Odd, max_episode_steps=7)


def made(**said):
    return environments.make("gymnasium", id="Odd-v0", kwargs=said)


@pytest.mark.parametrize("said", [{"action_space": None}, {"metadata": {"render_modes": None}}])
def test_an_environment_that_cannot_be_described_is_one_line(said):
    with pytest.raises(UserError, match=r"^env.id=Odd-v0(: its description raised TypeError|: its actions are None)"):
        list(islice(made(**said).tasks("train"), 1))


@pytest.mark.parametrize("table", [{}, {"a": {"b": [(1.0, "a", 0.0, True)]}}, {0: {}, 1: {}, 2: {}}, [1, 2, 3]])
def test_an_attribute_p_of_another_kind_is_no_table(table):
    env = made(P=table)
    assert not env.has_expert and env.horizon == 7


def test_a_table_of_the_spaces_has_an_expert():
    table = {state: {0: [(1.0, state, 0.0, False)], 1: [(1.0, 2, 1.0, True)]} for state in range(3)}
    env = made(P=table)
    assert env.start(list(islice(env.tasks("train"), 1))).expert(0) == "1"


def test_a_text_that_cannot_be_encoded_is_one_line():
    """The vocabulary is made of such texts, before any episode of a run."""
    env = made(said="caf\udce9")
    with pytest.raises(UserError, match=r"^env=gymnasium: the text of its observation is 'caf\\udce9', must be a text"):
        assert env.prompt
