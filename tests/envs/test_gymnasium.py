"""Environments of the installed Gymnasium, beyond the contract of all environments."""

from itertools import islice

import pytest

from bepo.core.batch import Terminal
from bepo.core.errors import UserError
from bepo.envs import environments
from bepo.envs.gymnasium.making import Maker
from bepo.envs.gymnasium.texts import described, plain
from bepo.testing.env import (
    check_its_vocabulary_suffices_for_a_word_level_tokenizer,
    check_observations_and_steps_have_their_types,
)

gymnasium = pytest.importorskip("gymnasium")


def made(env_id, **settings):
    return environments.make("gymnasium", id=env_id, **settings)


def expert_plays(env, n):
    """Return the last step of each of ``n`` episodes by the expert, and the number of steps."""
    episodes = env.start(list(islice(env.tasks("train"), n)))
    last, steps = {}, [0] * n
    for i in range(n):
        while (i not in last or last[i].terminal == Terminal.NONE) and steps[i] < env.horizon:
            last[i] = episodes.step({i: episodes.expert(i)})[i]
            steps[i] += 1
    return [last[i] for i in range(n)], steps


def test_taxi_shows_the_state_and_lists_what_changes_it():
    env = made("Taxi-v4")
    (task,) = islice(env.tasks("train"), 1)
    episodes = env.start([task])
    assert episodes.observations[0].text.count("[") == 1 and "pickup" not in episodes.observations[0].admissible
    last, steps = expert_plays(env, 10)
    assert all(step.terminal == Terminal.SUCCESS and step.reward == 20 for step in last) and max(steps) < 20


def test_a_taxi_that_stands_on_its_destination_has_both_marks():
    assert plain("|\x1b[35m\x1b[43mY\x1b[0m\x1b[0m| : |\n  (South)\n") == "|([Y])| : |"


def test_cliff_walking_succeeds_where_it_ends():
    last, steps = expert_plays(made("CliffWalking-v1"), 1)
    assert (last[0].terminal, last[0].reward, last[0].task_score, steps) == (Terminal.SUCCESS, -1.0, 1.0, [13])


def test_a_hole_of_the_lake_is_a_failure_and_no_way_out_is_known():
    env = made("FrozenLake-v1", kwargs={"desc": ["SHF", "FFF", "FFG"], "is_slippery": False})
    episodes = env.start(list(islice(env.tasks("test"), 1)))
    step = episodes.step({0: "right"})[0]
    assert (step.terminal, step.task_score) == (Terminal.FAILURE, 0.0)
    blocked = made("FrozenLake-v1", kwargs={"desc": ["SHF", "HFF", "FFG"], "is_slippery": False})
    assert blocked.start(list(islice(blocked.tasks("test"), 1))).expert(0) is None


def test_chance_is_part_of_a_task():
    env = made("FrozenLake-v1")  # slippery
    one, two = list(islice(env.tasks("train"), 2))
    episodes = env.start([one, one, two])
    texts = [[episodes.step({i: "right"})[i].observation.text for _ in range(3)] for i in range(3)]
    assert texts[0] == texts[1] != texts[2]


def test_distinct_starts_are_all_that_there_are():
    env = made("Taxi-v4", starts="distinct")
    tasks = [task.id for split in ("train", "validation", "test") for task in env.tasks(split)]
    assert len(tasks) == len(set(tasks)) == 300  # 25 places, 4 x 3 pairs of stands


def test_an_environment_without_a_table_has_no_expert_but_numbers_to_read():
    env = made("Blackjack-v1")
    assert not env.has_expert
    episodes = env.start(list(islice(env.tasks("train"), 4)))
    assert all(len(o.text.split()) == 3 and o.admissible == ("stick", "hit") for o in episodes.observations)


def test_exact_words_come_before_numbers():
    numbered = made("MountainCar-v0", actions=["2", "1", "0"])
    assert [numbered.parse_action(text) for text in ("0", "1", "2", "3")] == ["0", "1", "2", None]
    assert [made("MountainCar-v0").parse_action(text) for text in ("0", "COAST", "2", "3")] == [
        "left",
        "coast",
        "right",
        None,
    ]
    assert made("MountainCar-v0", actions=["10", "20", "30"]).parse_action("1") is None
    named = made("MountainCar-v0", actions=["go", "Go left", "go right"])
    told = ("GO", "go  left", "I go right", "I go", "let us go up")
    assert [named.parse_action(text) for text in told] == ["go", "Go left", "go right", "go", "go"]


def test_actions_run_themselves_in_the_words_of_a_tiny_model():
    env = made("CliffWalking-v1", actions=["-1", "UP", "1", "go_on"])
    check_observations_and_steps_have_their_types(env)
    check_its_vocabulary_suffices_for_a_word_level_tokenizer(env)
    assert [env.parse_action(text) for text in ("- 1", "U P", "1", "-1", "1 go _ on")] == ["-1", "UP", "1", "-1", "1"]


class Many(gymnasium.Env):
    """An environment with more actions than random episodes try."""

    action_space, observation_space = gymnasium.spaces.Discrete(3000), gymnasium.spaces.Text(9)

    def __init__(self, render_mode=None):
        pass

    def reset(self, *, seed=None, options=None):
        return "here", {}

    def step(self, action):
        return "there", 0.0, False, False, {}


def test_every_action_is_in_the_vocabulary():
    gymnasium.register("Many-v0", Many)
    assert {str(n) for n in range(3000)} <= set(made("Many-v0", horizon=2).prompt.vocabulary)


class Pictures(gymnasium.Env):
    """An environment whose observations are pictures."""

    action_space, observation_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Box(0, 255, (8, 8, 3), "uint8")

    def __init__(self, render_mode=None):
        pass

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}


if "Pictures-v0" not in gymnasium.registry:
    gymnasium.register("Pictures-v0", Pictures)


class Long(gymnasium.Env):
    """An environment that is registered with a time limit, and counts how often it is closed."""

    action_space, observation_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Text(9)
    left_open = 0

    def __init__(self, breaks=(), render_mode=None):
        if breaks:
            raise RuntimeError(breaks.pop())
        Long.left_open += 1

    def close(self):
        Long.left_open -= 1


gymnasium.register("Long-v0", Long, max_episode_steps=300)
gymnasium.register("Long-v3", Long, max_episode_steps=310)
gymnasium.register("Short-v0", lambda **kwargs: gymnasium.wrappers.TimeLimit(Long(**kwargs), 40), max_episode_steps=60)


HORIZONS = {"FrozenLake-v1": 100, "Taxi-v4": 200, "gymnasium:Taxi-v4": 200, "Taxi": 200, "CartPole": 500}
HORIZONS |= {"CartPole-v0": 200, "Long-v0": 300, "Long": 310, "Short-v0": 40, "CliffWalking-v1": 50}  # it has none


@pytest.mark.parametrize("env_id, horizon", HORIZONS.items())
def test_the_time_limit_of_the_made_environment_is_the_horizon(env_id, horizon):
    assert made(env_id).horizon == horizon and made(env_id, horizon=7).horizon == 7


def test_an_environment_is_closed_after_its_time_limit_is_read(monkeypatch):
    monkeypatch.setattr(Long, "left_open", 0)
    Maker("Long-v0", {}, ("a", "b")).time_limit()
    before = Long.left_open
    Maker("Long-v0", {}, ("a", "b"))
    assert before == Long.left_open - before  # making it opens as many without a limit


def test_no_time_limit_is_assumed_where_it_cannot_be_read():
    breaks = ["no display"]
    env = made("Long-v0", kwargs={"breaks": breaks})
    assert env.horizon == 0 and not breaks
    with pytest.raises(UserError, match="could not be made when its time limit was read; try again"):
        list(islice(env.tasks("train"), 1))
    assert made("Long-v0", kwargs={"breaks": breaks}).horizon == 300


@pytest.mark.parametrize("env_id", ["CartPole-v1", "MountainCar-v0", "Acrobot-v1"])
def test_vectors_are_described(env_id):
    env = made(env_id)
    episodes = env.start(list(islice(env.tasks("train"), 2)))
    first = episodes.observations[0].text
    assert all(name in first for name in env._maker.family.numbers) and env._maker.family.numbers
    assert episodes.step({0: env._maker.words[0]})[0].observation.text != first
    assert described({"a": (1, True), "b": 0.25}) == "a: 1 1\nb: 0.25"


def test_a_pole_that_stands_until_the_time_limit_is_a_success():
    env = made("CartPole-v1", horizon=15)
    episodes = env.start(list(islice(env.tasks("train"), 2)))
    ends = [Terminal.NONE] * 2
    for number in range(15):
        for i, action in ((0, ["left", "right"][number % 2]), (1, "left")):
            if ends[i] == Terminal.NONE:
                ends[i] = episodes.step({i: action})[i].terminal
    assert ends == [Terminal.SUCCESS, Terminal.FAILURE]


def test_a_pole_that_nobody_pushes_does_not_stand():
    env = made("CartPole-v1", horizon=5)
    episodes = env.start(list(islice(env.tasks("train"), 1)))
    steps = [episodes.step({0: action})[0] for action in (None, "left", "right", "left", "right")]
    assert {(step.terminal, step.task_score) for step in steps} == {(Terminal.NONE, 0.0)}


@pytest.mark.parametrize(
    "settings, told",
    [
        ({"id": "Nowhere-v0"}, "'Nowhere-v0'; choices: Blackjack-v1"),
        ({"id": "FrozenLake-v9"}, "did you mean FrozenLake-v1"),
        ({"id": "nowhere:Lake-v0"}, "env.id=nowhere:Lake-v0"),
        ({"id": "Taxi-v4", "actions": ["a", "b"]}, "6 different words"),
        ({"id": "Blackjack-v1", "actions": ["A", "a"]}, r"actions=\['A', 'a'\]: 'a' is 'A' without case"),
        ({"id": "Blackjack-v1", "actions": ["A B", "AB"]}, "'AB' is 'A B' without case and blanks"),
        ({"id": "Blackjack-v1", "actions": ["A", " "]}, "' ' is empty"),
        ({"id": "FrozenLake-v1", "kwargs": {"nope": 1}}, "nope"),
        ({"id": "FrozenLake-v1", "kwargs": {"desc": ["S"]}}, "desc"),
        ({"id": "FrozenLake-v1", "kwargs": {"map_name": None, "size": 1}}, "env.kwargs.size=1"),
        (
            {"id": "Pictures-v0"},
            r"env.id=Pictures-v0: .*uint8 of shape \(8, 8, 3\); at most 64 numbers.*render_mode=ansi",
        ),
        ({"id": "Pendulum-v1"}, "not numbered"),
    ],
)
def test_what_cannot_be_played_is_one_line(settings, told):
    env = environments.make("gymnasium", **settings)
    with pytest.raises(UserError, match=told):
        env.start(list(islice(env.tasks("train"), 1)))


@pytest.mark.parametrize(
    "like, env_id", [("FrozenLake-v1", "FrozenLake8x8-v1"), ("CliffWalking-v1", "CliffWalkingSlippery-v1")]
)
def test_variants_speak_the_words_of_their_family(like, env_id):
    assert made(like).prompt.rules == made(env_id).prompt.rules
    assert made(env_id).parse_action("down") == "down"


def test_a_fixed_map_has_no_distinct_test_tasks():
    with pytest.raises(UserError, match=r"has 1 first observation.*map_name=null"):
        list(made("FrozenLake-v1", starts="distinct").tasks("test"))


def test_maps_of_distinct_lakes_are_their_tasks():
    env = made("FrozenLake8x8-v1", starts="distinct", kwargs={"map_name": None})
    episodes = env.start(list(islice(env.tasks("test"), 3)))
    assert len({o.text for o in episodes.observations}) == 3
    assert all(len(o.text.splitlines()) == 8 for o in episodes.observations)


def test_what_a_reset_raises_is_one_line_with_the_error_behind_it(monkeypatch):
    """What a step raises: test_odd_values.py."""
    env = made("Blackjack-v1")
    tasks = list(islice(env.tasks("train"), 1))
    monkeypatch.setattr("gymnasium.envs.toy_text.blackjack.BlackjackEnv.reset", lambda self, **_: 1 // 0)
    with pytest.raises(UserError, match=r"env\.id=Blackjack-v1: its reset raised ZeroDivisionError") as raised:
        env.start(tasks)
    assert raised.value.__cause__ is not None
