"""Environments of the installed Gymnasium, beyond the contract that every environment keeps."""

from itertools import islice

import pytest

from bepo.core.batch import Terminal
from bepo.core.errors import UserError
from bepo.envs import environments
from bepo.envs.gymnasium.texts import plain

pytest.importorskip("gymnasium")


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


@pytest.mark.parametrize(
    "settings, told",
    [
        ({"id": "Nowhere-v0"}, "env.id=Nowhere-v0"),
        ({"id": "Taxi-v4", "actions": ["a", "b"]}, "6 different words"),
        ({"id": "FrozenLake-v1", "kwargs": {"nope": 1}}, "nope"),
        ({"id": "CartPole-v1"}, "no text"),
        ({"id": "Pendulum-v1"}, "not numbered"),
    ],
)
def test_what_cannot_be_played_is_one_line(settings, told):
    env = environments.make("gymnasium", **settings)
    with pytest.raises(UserError, match=told):
        env.start(list(islice(env.tasks("train"), 1)))
