"""``env=verifiers`` with a multi-turn environment on the installed package."""

import os
import threading
from itertools import islice

import pytest

from bepo.core.batch import Terminal
from bepo.core.errors import UserError
from bepo.envs import environments, started
from bepo.envs import verifiers as adapter
from bepo.testing import contract


@pytest.fixture
def installed():
    pytest.importorskip("verifiers", reason="verifiers is not installed: pip install 'verifiers>=0.1.14,<0.4'")


@pytest.fixture
def env(installed, monkeypatch):
    monkeypatch.syspath_prepend("tests/envs")
    return environments.make("verifiers", id="guess_env", horizon=6)


@pytest.mark.parametrize("check", contract("env"))
def test_contract(check, env):
    check(env)


def test_a_conversation_ends_with_the_score_of_the_rubric(env):
    tasks = list(islice(env.tasks("train"), 3))
    episodes = env.start(tasks)
    assert episodes.instructions == ["Be brief."] * 3 and "Riddle" in episodes.observations[0].text
    wrong = episodes.step({i: "x" for i in range(3)})
    assert all(s.observation.text == "Wrong, guess again." and s.terminal == Terminal.NONE for s in wrong.values())
    right = episodes.step({0: tasks[0].data["answer"], 1: None})
    assert (right[0].terminal, right[0].reward, right[0].task_score) == (Terminal.SUCCESS, 1.0, 1.0)
    assert right[0].observation.text == "Right." and right[1].terminal == Terminal.NONE
    ends = [episodes.step({2: "x"})[2].terminal for _ in range(3)]
    assert ends == [Terminal.NONE, Terminal.NONE, Terminal.FAILURE]  # max_turns


def test_an_unknown_environment_is_one_line(installed):
    with pytest.raises(UserError, match=r"env\.id=no_such_env"):
        next(environments.make("verifiers", id="no_such_env").tasks("train"))


def test_a_version_with_another_interface_is_one_line(monkeypatch):
    monkeypatch.setattr(adapter, "find_spec", lambda name: name)
    monkeypatch.setattr(adapter, "version", lambda name: "0.4.0")
    with pytest.raises(UserError, match=r"^verifiers 0\.4\.0 is installed; env=verifiers supports >=0\.1\.14,<0\.4;"):
        next(environments.make("verifiers", id="guess_env").tasks("train"))


def test_the_end_of_a_batch_ends_its_thread_and_its_rollouts(env, monkeypatch):
    tasks = list(islice(env.tasks("train"), 3))
    ended = []
    monkeypatch.setattr(type(env._made), "cleanup", lambda self, state: _note(ended))
    before = threading.active_count(), len(os.listdir("/proc/self/fd"))
    with pytest.raises(KeyboardInterrupt), started(env, tasks) as episodes:
        episodes.step({0: "x"})
        raise KeyboardInterrupt
    assert len(ended) == 3
    assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == before


@pytest.mark.parametrize("where", ["env_response", "rubric"])
def test_an_environment_that_ends_the_program_is_one_line(where, env, monkeypatch):
    """``SystemExit`` would end the event loop, and the batch would wait for it without end."""

    async def ends(*_, **__):
        raise SystemExit(3)

    owner, method = (type(env._made), where) if where == "env_response" else (type(env._made.rubric), "score_rollout")
    tasks = list(islice(env.tasks("train"), 2))
    monkeypatch.setattr(owner, method, ends)
    with started(env, tasks) as episodes, pytest.raises(UserError, match=r"^env.id=guess_env: .*SystemExit\(3\)"):
        for _ in range(9):
            episodes.step({0: "x"})


async def _note(ended):
    ended.append(True)
