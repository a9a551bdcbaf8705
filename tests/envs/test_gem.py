"""GEM's environments from the installed package, beyond the contract of all environments."""

import random
from itertools import islice
from typing import ClassVar

import pytest

import bepo.rollouts.collect as rollouts
from bepo.core.batch import Terminal
from bepo.core.errors import UserError
from bepo.envs import environments
from bepo.rollouts.agent import Agent

gem = pytest.importorskip("gem")
from gem.utils.parsing import extract_last_tagged_answer  # noqa: E402


class Capital(gem.Env):
    """A question that is only answered by ``Paris``."""

    def reset(self, seed=None):
        return "Capital of France?", {}

    def step(self, action):
        return "", float(action == "\\boxed{Paris}"), True, False, {}


class Rows(Capital):
    """Like GEM's questions, it draws the row of its data from one too many."""

    behind: ClassVar[set[int]] = set()  # the seeds that found it

    def reset(self, seed=None):
        random.seed(seed)
        drawn = random.randint(0, 40)
        self.behind.update({seed} if drawn == 40 else ())
        return [str(i) for i in range(40)][drawn], {}


gem.register("test:Capital", Capital)
gem.register("test:Rows", Rows)
gem.register("test:Tagged", "gem.envs.qa_env:QaEnv")
gem.register("test:Boxed", "gem.envs.qa_env:QaEnv", extract_boxed=True)


class Says:
    """A policy that always gives one response."""

    def __init__(self, text):
        self._text = text

    def sample(self, prompts, choices, sampling, seed, images=None):
        return [rollouts.Sample([1], [2], [0.0], self._text) for _ in prompts]


@pytest.mark.parametrize("style, said", [("full", "<think></think><action>{}</action>"), ("compact", "{}")])
@pytest.mark.parametrize("answer, success", [("Paris", 1), ("paris", 0)])
def test_the_case_of_an_answer_counts(style, said, answer, success):
    env = environments.make("gem", id="test:Capital")
    tasks = list(islice(env.tasks("train"), 2))
    policy = Says(said.format(answer))
    batch = rollouts.collect(env, Agent(style=style), policy, tasks, 1, rollouts.Sampling(), seed=0)
    assert set(batch.actions) == {f"\\boxed{{{answer}}}"} and batch.success.mean() == success


@pytest.mark.parametrize("settings", [{"id": "test:Tagged"}, {"id": "test:Tagged", "kwargs": {"extract_boxed": False}}])
@pytest.mark.parametrize("said", ["423", " <answer>423</answer> ", "It is <answer> 423 </answer>."])
def test_a_question_is_answered_in_tags(settings, said):
    action = environments.make("gem", **settings).parse_action(said)
    assert extract_last_tagged_answer(action).strip() == "423"


@pytest.mark.parametrize("settings", [{"id": "test:Boxed"}, {"id": "test:Tagged", "kwargs": {"extract_boxed": True}}])
def test_a_question_with_boxes_is_answered_in_a_box(settings):
    assert environments.make("gem", **settings).parse_action("423") == "\\boxed{423}"


def test_a_seed_behind_the_last_row_draws_again():
    _, episodes = started("test:Rows", 64)
    assert Rows.behind and started("test:Rows", 64)[1].instructions == episodes.instructions


def started(env_id, n=1, **settings):
    env = environments.make("gem", id=env_id, **settings)
    return env, env.start(list(islice(env.tasks("train"), n)))


def test_a_number_is_found_by_halving():
    env, episodes = started("game:GuessTheNumber-v0-easy", 8)
    for i in range(8):
        low, high, step = 1, 10, None
        while step is None or step.terminal == Terminal.NONE:
            guess = (low + high) // 2
            step = episodes.step({i: env.parse_action(str(guess))})[i]
            low, high = (guess + 1, high) if "higher than" in step.observation.text else (low, guess - 1)
        assert (step.terminal, step.task_score) == (Terminal.SUCCESS, 1.0)


def test_a_text_that_is_no_guess_ends_the_game():
    env, episodes = started("game:GuessTheNumber-v0-easy")
    step = episodes.step({0: env.parse_action("no idea")})[0]
    assert (step.terminal, step.task_score, step.reward) == (Terminal.FAILURE, 0.0, pytest.approx(-0.1))


def test_rewards_of_parts_add_up_to_success():
    env, episodes = started("game:TowerofHanoi-v0-easy", states="suffix", kwargs={"num_disks": 2})
    steps = [episodes.step({0: env.parse_action(move)})[0] for move in ("a b", "a c", "b c")]
    assert steps[-1].terminal == Terminal.SUCCESS and steps[-1].task_score == 1


def test_states_are_the_board_or_the_way_there():
    keys = {}
    for states in ("suffix", "history"):
        env, episodes = started("game:TowerofHanoi-v0-easy", states=states)
        first = episodes.observations[0].key
        for move in ("a b", "b a"):
            episodes.step({0: env.parse_action(move)})
        keys[states] = first == episodes.observations[0].key
    assert keys == {"suffix": True, "history": False}


def test_the_random_numbers_of_others_are_left_alone():
    random.seed(7)
    expected = random.random()
    random.seed(7)
    env, episodes = started("game:Minesweeper-v0-very-easy", 3)
    episodes.step({0: env.parse_action("reveal 0 0")})
    assert random.random() == expected


@pytest.mark.parametrize(
    "settings, told",
    [
        ({"env_id": "game:Wordel-v0"}, "did you mean game:Wordle-v0"),
        ({"env_id": "game:GuessTheNumber-v0", "kwargs": {"max_nmber": 3}}, "did you mean max_number"),
        ({"env_id": "code:CodeContest"}, "env.id=code:CodeContest.*sandbox_type.*bwrap.*none"),
    ],
)
def test_what_cannot_be_played_is_one_line(settings, told):
    with pytest.raises(UserError, match=told):
        started(**settings)
