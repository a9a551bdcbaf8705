"""Environments are closed, each once: when their episodes end, after errors, and at Ctrl-C."""

import errno
import io
import os
import signal
from itertools import islice

import pytest

from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError
from bepo.envs import Environment, environments, started
from bepo.envs.sokoban import Sokoban
from bepo.envs.webshop import WebShop
from bepo.lab.expert import with_expert_steps
from bepo.play import main as play
from bepo.rollouts.agent import Agent
from bepo.rollouts.collect import EpisodeBatch, Overlong, Sample, Sampling, collect
from bepo.rollouts.continuations import collect_continued
from bepo.rollouts.prompting import Prompting
from bepo.rollouts.prompting.episodes import PromptedPass
from bepo.rollouts.task_sets import TaskSet
from bepo.testing import contract
from bepo.training.warm_start import demonstrations
from tests.command import start, stop_after
from tests.rollouts.test_prompting import TEMPLATE

pytest.importorskip("gymnasium")
pytest.importorskip("gem")

GYM = {"id": "tests.envs.open_games:Open-v0", "horizon": 6}


@pytest.fixture
def games(tmp_path, monkeypatch):
    """The folder with a file for each open game."""
    monkeypatch.setenv("OPEN_GAMES", str(tmp_path))
    import tests.envs.open_games as module

    module.Noted.made = 0
    return tmp_path


def made(name: str, **settings: object) -> Environment:
    """Return an environment of ``open_games.py``."""
    return environments.make(name, **({"id": "open:Game", "horizon": 6} if name == "gem" else GYM) | settings)


def tasks(env: Environment, n: int = 4):
    return list(islice(env.tasks("train"), n))


class Policy:
    """Goes right or, with ``words``, says them; ``raises`` at the second step."""

    def __init__(self, raises: BaseException | None = None, words: str = "") -> None:
        self.raises, self.words, self.calls = raises, words, 0

    def sample(self, prompts, choices, sampling, seed, images=None):
        self.calls += 1
        if self.raises and self.calls == 2:
            raise self.raises
        words = [self.words or "1 right" for _ in prompts]
        return [Sample([1], [2], [0.0], f"<action>{said}</action>") for said in words]


@pytest.mark.parametrize("name", ["gymnasium", "gem"])
@pytest.mark.parametrize("words", ["1 right", "0 left"])
def test_an_environment_is_closed_when_its_episode_ends_or_is_cut_off(name, words, games):
    env = made(name)
    batch = collect(env, Agent(), Policy(words=words), tasks(env), 2, Sampling(), 0)
    assert batch.success.all() == (words == "1 right") and not list(games.iterdir())


@pytest.mark.parametrize("name", ["gymnasium", "gem"])
def test_one_that_ends_first_is_closed_first(name, games):
    env = made(name)
    with started(env, tasks(env, 3)) as episodes:
        for _ in range(3):
            episodes.step({0: env.parse_action("1" if name == "gymnasium" else "right")})
        assert len(list(games.iterdir())) == 2
    assert not list(games.iterdir())


@pytest.mark.parametrize("name", ["gymnasium", "gem"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), UserError("full"), Overlong("long")], ids=repr)
def test_all_are_closed_when_the_policy_fails_or_at_ctrl_c(name, error, games):
    env = made(name)
    with pytest.raises(type(error)):
        collect(env, Agent(), Policy(error), tasks(env), 2, Sampling(), 0)
    assert not list(games.iterdir())


@pytest.mark.parametrize("name", ["gymnasium", "gem"])
@pytest.mark.parametrize("method", ["make", "reset", "step"])
def test_all_are_closed_when_one_fails(name, method, games, monkeypatch):
    env = made(name)
    chosen = tasks(env)
    monkeypatch.setenv("GAME_FAILS", method)
    with pytest.raises(UserError, match=f"{method} failed"):
        collect(env, Agent(style="compact"), Policy(), chosen, 2, Sampling(), 0)
    assert not list(games.iterdir())


def test_too_many_open_files_are_not_blamed_on_the_environment(games, monkeypatch):
    def reset(*_, **__):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    env = made("gymnasium")
    monkeypatch.setattr("tests.envs.open_games.Gym.reset", reset)
    with pytest.raises(UserError, match=r"Too many open files: run fewer episodes at a time, or .* \(ulimit -n\)"):
        env.start(tasks(env))


@pytest.mark.parametrize("name", ["gymnasium", "gem"])
def test_what_is_made_for_a_look_is_closed(name, games):
    env = made(name)
    assert env.prompt.vocabulary and not env.has_expert and tasks(env)
    assert not list(games.iterdir())


def test_a_game_that_a_person_leaves_is_closed(games, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("1\nq\n"))
    assert play(["gymnasium", *(f"{key}={value}" for key, value in GYM.items())]) == 0
    assert "stopped" in capsys.readouterr().out and not list(games.iterdir())


def test_the_first_observations_are_read_from_one_environment(games):
    env = made("gymnasium", starts="distinct")
    with pytest.raises(UserError, match="has 1 first observation"):
        tasks(env)
    assert not list(games.iterdir())


def test_an_expert_and_its_demonstrations_leave_nothing_open(games):
    env = made("gymnasium", kwargs={"table": True})
    assert env.has_expert
    assert len(demonstrations(env, Agent(), tasks(env), 0.0, 0)) == 4 * 3 and not list(games.iterdir())


@pytest.mark.parametrize("check", contract("env"))
def test_contract_tests_leave_nothing_open(check, games):
    check(made("gymnasium", kwargs={"table": True}))
    assert not list(games.iterdir())


class Stops:
    """An endpoint that is interrupted when it is asked."""

    def ask(self, requests):
        raise KeyboardInterrupt


def counted(cls, **settings):
    """Return an environment of a class, which counts its batches that are open."""

    class Counted(cls):
        open = 0

        def start(self, tasks):
            Counted.open += 1
            return super().start(tasks)

        def close_episodes(self, episodes):
            Counted.open -= 1

    return Counted(**settings)


def test_every_batch_that_is_started_is_closed():
    env = counted(Sokoban, observation="text", horizon=6)
    chosen, moves = tasks(env, 3), Policy(words="up")
    collect_continued(env, Agent(), moves, chosen, 2, Sampling(), 5, 2)
    assert env.open == 0
    batch = EpisodeBatch(env, Agent(), [(task, g, 0) for g, task in enumerate(chosen)])
    assert env.open == 1
    batch.step(batch.prompts(), moves.sample([""] * 3, [], Sampling(), 0))
    batch.close()
    with_expert_steps(RolloutBatch.from_rows([row | {"done": "truncation"} for row in batch.rows]), env, chosen)
    assert demonstrations(env, Agent(), chosen, 0.0, 0) and env.open == 0


def test_every_batch_of_a_served_agent_is_closed():
    env = counted(WebShop, products=60)
    chosen = tasks(env, 3)
    passed = PromptedPass(env, Agent(), Prompting(method="react", exemplars=1), Stops(), TEMPLATE)
    assert passed.first_prompts(chosen) and env.open == 0
    with pytest.raises(KeyboardInterrupt):
        passed.play(TaskSet("test", tuple(chosen)), 0)
    assert env.open == 0


@pytest.mark.slow
@pytest.mark.parametrize("interrupted", [False, True])
def test_training_leaves_no_game_open(interrupted, games, tmp_path):
    settings = ["env=gymnasium", *(f"env.{key}={value}" for key, value in GYM.items()), "tier=smoke"]
    command = start(tmp_path / "results", *settings, f"updates={200 if interrupted else 2}")
    if interrupted:
        stop_after(command, tmp_path / "results", 1, signal.SIGINT)
    assert command.communicate() and command.returncode == (130 if interrupted else 0)
    assert [path.name for path in games.iterdir()] == ["results"]
