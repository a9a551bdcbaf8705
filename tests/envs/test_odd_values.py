"""Odd values of ``step`` and ``reset``: each is taken for what it clearly is, or refused in one line with the ID."""

from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest

from bepo.core.batch import Terminal
from bepo.core.errors import UserError
from bepo.envs import Observation, environments
from bepo.envs._values import begun, flag_of, reward_of, stepped
from bepo.envs.openenv import OpenEnvEpisodes
from bepo.envs.sokoban import Sokoban
from bepo.rollouts.agent import Agent
from bepo.rollouts.collect import Overlong, Sample, Sampling, collect


class Says:
    """A policy with one answer."""

    def __init__(self, text="up", **more):
        self._answer = Sample(**({"prompt_ids": [1], "response_ids": [2], "logprobs": [0.0], "text": text} | more))

    def sample(self, prompts, choices, sampling, seed, images=None):
        return [self._answer for _ in prompts]


def played(env, policy=None):
    return collect(env, Agent(style="compact"), policy or Says(), list(islice(env.tasks("train"), 2)), 2, Sampling(), 0)


@pytest.mark.parametrize(
    "values, plain",
    [
        (("o", 1, False, False, {}), ("o", 1.0, False, False, {})),
        (("o", np.array([0.5]), np.array(True), np.array([0]), None), ("o", 0.5, True, False, {})),
        (["o", np.float32(0.5), np.bool_(False), 1, {"a": 1}], ("o", 0.5, False, True, {"a": 1})),
    ],
)
def test_clear_values_of_a_step_are_taken(values, plain):
    found = stepped("Odd-v0", values)
    assert found == plain and [*map(type, found[1:4])] == [float, bool, bool]


@pytest.mark.parametrize(
    "values, problem",
    [
        (("o", 1.0, False, {}), "its step returned 4 values, as in gym before 0.26, not .observation, reward"),
        (("o", 1.0, False), "its step returned 3 values, not .observation"),
        (None, "its step returned NoneType, not"),
        (("o", None, False, False, {}), "its step returned the reward None, must be a number"),
        (("o", np.zeros((40, 2)), False, False, {}), r"the reward array\(\[\[0., 0.\], .*\[...\], must be a number"),
        (("o", "1", False, False, {}), "the reward '1', must be a number"),
        (("o", 1j, False, False, {}), "the reward 1j, must be a number"),
        (("o", np.ma.masked, False, False, {}), "the reward masked, must be a number"),
        (("o", np.nan, False, False, {}), "the reward nan, must be finite"),
        (("o", -np.inf, False, False, {}), "the reward -inf, must be finite"),
        (("o", 1e308, False, False, {}), r"the reward 1e\+308, must be finite, at most 1e\+15 in size"),
        (("o", 1.0, np.array([True, True]), False, {}), "terminated=array.*, must be true or false"),
        (("o", 1.0, False, None, {}), "truncated=None, must be true or false"),
        (("o", 1.0, 0.5, False, {}), "terminated=0.5, must be true or false"),
        (("o", 1.0, False, False, "info"), "its step returned str as info, must be a dictionary"),
    ],
)
def test_unclear_values_of_a_step_are_one_line(values, problem):
    with pytest.raises(UserError, match=f"env.id=Odd-v0: .*{problem}") as raised:
        stepped("Odd-v0", values)
    assert "\n" not in str(raised.value)


def test_values_of_reset():
    assert begun("Odd-v0", ("o", None)) == ("o", {})
    for wrong, problem in (("ab", "str"), (np.zeros(2), "ndarray"), ((1, 2, 3), "3 values"), (None, "NoneType")):
        with pytest.raises(UserError, match=rf"env.id=Odd-v0: its reset returned {problem}, not \(observation, info\)"):
            begun("Odd-v0", wrong)
    with pytest.raises(UserError, match="its reset returned str as info"):
        begun("Odd-v0", ("o", "i"))


ODD = {
    "reward": lambda o, r, e, c, i: (o, np.nan, e, c, i),
    "terminated": lambda o, r, e, c, i: (o, r, None, c, i),
    "4 values": lambda o, r, e, c, i: (o, r, e, i),
    "SystemExit": lambda o, r, e, c, i: exit(3),
    "its step raised ZeroDivisionError": lambda o, r, e, c, i: 1 // 0,
    "action_mask": lambda o, r, e, c, i: (o, r, e, c, {"action_mask": [1, 1, 1]}),
    "action_mask is <U3": lambda o, r, e, c, i: (o, r, e, c, {"action_mask": ["yes", "no"]}),
    "observation": lambda o, r, e, c, i: (None, r, e, c, i),
}


@pytest.mark.parametrize("odd", ODD)
def test_gymnasium_names_the_environment(odd, monkeypatch):
    pytest.importorskip("gymnasium")
    env = environments.make("gymnasium", id="Blackjack-v1")
    episodes = env.start(list(islice(env.tasks("train"), 1)))
    monkeypatch.setattr(
        type(episodes._envs[0]), "step", lambda self, action: ODD[odd]((1, 2, 0), 0.0, False, False, {})
    )
    with pytest.raises(UserError, match="^env.id=Blackjack-v1: .*" + ("" if odd == "observation" else odd)):
        episodes.step({0: "hit"})


@pytest.mark.parametrize("odd", [name for name in ODD if "action_mask" not in name])
def test_gem_names_the_environment(odd, monkeypatch):
    pytest.importorskip("gem")
    env = environments.make("gem")
    episodes = env.start(list(islice(env.tasks("train"), 1)))
    monkeypatch.setattr(type(episodes._envs[0]), "step", lambda self, action: ODD[odd]("o", 0.0, False, False, {}))
    with pytest.raises(UserError, match=f"^env.id=game:GuessTheNumber-v0-easy: .*{odd}"):
        episodes.step({0: "\\boxed{1}"})


@pytest.mark.parametrize("reset", [("text only"), (None, {}), ("text", "info")])
def test_gem_names_the_environment_of_an_odd_reset(reset, monkeypatch):
    pytest.importorskip("gem")
    env = environments.make("gem")
    monkeypatch.setattr("gem.envs.game_env.guess_the_number.GuessTheNumberEnv.reset", lambda self, seed=None: reset)
    with pytest.raises(UserError, match=r"^env.id=game:GuessTheNumber-v0-easy: its reset returned"):
        env.start(list(islice(env.tasks("train"), 1)))


@pytest.mark.parametrize("result", [{"reward": [1.0, 2.0]}, {"reward": float("nan")}, {"done": "yes"}])
def test_openenv_names_the_environment(result):
    episodes = OpenEnvEpisodes.__new__(OpenEnvEpisodes)
    given = SimpleNamespace(**({"reward": None, "done": None, "observation": {"text": "now"}} | result))
    episodes._env = environments()["openenv"](id="Odd")
    episodes._clients = [SimpleNamespace(step=lambda fields: given, close=lambda: None)]
    episodes._field, episodes._totals, episodes._histories, episodes.observations = "text", [0.0], [""], [None]
    with pytest.raises(UserError, match=r"^env.id=Odd: its step returned"):
        episodes.step({0: "x"})
    given.reward, given.done = None, None
    assert episodes.step({0: "x"})[0].terminal == Terminal.NONE


def test_numbers_and_flags():
    assert reward_of("x", np.array([[2]])) == 2.0 and flag_of("x", "y", np.array([1.0])) is True


# --- environments of plug-ins -------------------------------------------------------------------------------


def of(**changed):
    """Return an environment whose steps have other values."""

    class Odd(Sokoban):
        def start(self, tasks):
            episodes = super().start(tasks)
            plain = episodes.step
            episodes.step = lambda actions: {i: replace(one, **changed) for i, one in plain(actions).items()}
            return episodes

    return Odd(observation="text", horizon=3)


@pytest.mark.parametrize("reward", [np.float32(0.5), np.array([0.5]), np.array(0.5)])
def test_clear_numbers_of_a_plug_in_are_taken(reward):
    batch = played(of(reward=reward, task_score=np.float64(0.25), broken=np.bool_(False)))
    assert (batch.reward == 0.5).all() and batch.reward.dtype == np.float64 and (batch.task_score == 0.25).all()


@pytest.mark.parametrize(
    "changed, problem",
    [
        ({"reward": np.nan}, "the reward of its step is nan, must be finite"),
        ({"reward": np.zeros(2)}, r"the reward of its step is array.*, must be a number"),
        ({"reward": -1e200}, r"the reward of its step is -1e\+200, must be finite, at most 1e\+15 in size"),
        ({"broken": np.zeros(2)}, r"the broken of its step is array.*, must be a number"),
        ({"task_score": 1.5}, "the task_score of its step is 1.5, must be from 0 to 1"),
        ({"task_score": np.nan}, "the task_score of its step is nan, must be from 0 to 1"),
        ({"terminal": Terminal.TRUNCATION}, "the terminal of its step is .*must be NONE, SUCCESS or FAILURE"),
        ({"terminal": True}, "must be NONE, SUCCESS or FAILURE"),
        ({"observation": "text"}, "must be an Observation"),
        ({"observation": Observation("a", 3, ())}, "the key of its observation is 3, must be a text"),
        (
            {"observation": Observation("caf\udce9", "a", ())},
            r"text of its observation is 'caf\\udce9', must be a text in Uni",
        ),
        ({"observation": Observation("a", "a", ("\ud800",))}, r"the admissible of its observation is .*in Unicode"),
        ({"observation": Observation(None, "a", ())}, "the text of its observation is None, must be a text"),
        ({"observation": Observation("a", "a", "up")}, "the admissible of its observation is 'up', must be texts"),
        ({"observation": Observation("a", "a", (), np.zeros((2, 2, 3)))}, "the image of its observation is array"),
        (
            {"observation": Observation("a", "a", ())},
            r"observations\[.\] after a step of its episodes is .*must be that",
        ),
    ],
)
def test_unclear_values_of_a_plug_in_are_one_line(changed, problem):
    with pytest.raises(UserError, match=f"^env=sokoban: .*{problem}") as raised:
        played(of(**changed))
    assert "\n" not in str(raised.value)


def test_an_action_of_a_plug_in_is_a_text():
    class Numbers(Sokoban):
        def parse_action(self, text):
            return 9

    with pytest.raises(UserError, match=r"^env=sokoban: the action of its parse_action is 9, must be a text or None$"):
        played(Numbers(observation="text"))


def test_an_environment_may_draw_into_one_array():
    """The pictures of a batch are those that the policy saw."""

    class Drawn(Sokoban):
        def start(self, tasks):
            episodes, screen = super().start(tasks), np.zeros((96, 96, 3), np.uint8)
            plain = episodes.step

            def drawn(observation):
                screen[:] = observation.image
                return replace(observation, image=screen)

            def step(actions):
                found = {i: replace(s, observation=drawn(s.observation)) for i, s in plain(actions).items()}
                episodes.observations[:] = [one.observation for one in found.values()]
                return found

            episodes.observations[:] = [drawn(one) for one in episodes.observations]
            episodes.step = step
            return episodes

    tasks = list(islice(Sokoban(observation="rgb").tasks("train"), 1))
    how = Agent(style="compact"), Says("<action>up</action>"), tasks, 1, Sampling(), 0
    found, expected = (collect(cls(observation="rgb", horizon=4), *how) for cls in (Drawn, Sokoban))
    np.testing.assert_array_equal(found.language.images, expected.language.images)
    np.testing.assert_array_equal(found.language.image, expected.language.image)


@pytest.mark.parametrize(
    "odd, problem",
    [
        ({"logprobs": []}, "the policy's response has 1 tokens and 0 log-probabilities"),
        ({"logprobs": [np.nan]}, "the policy's log-probabilities must be finite"),
        ({"response_ids": [], "logprobs": []}, "has 0 tokens"),
        ({"text": None}, "must be a Sample with a text"),
    ],
)
def test_odd_answers_of_a_policy_are_one_line(odd, problem):
    with pytest.raises(UserError, match=problem):
        played(Sokoban(observation="text"), Says(**odd))


def test_a_policy_answers_each_prompt():
    class Few:
        def sample(self, prompts, choices, sampling, seed, images=None):
            return [Overlong("x")]

    with pytest.raises(UserError, match="the policy gave 1 responses to 4 prompts"):
        played(Sokoban(observation="text"), Few())
