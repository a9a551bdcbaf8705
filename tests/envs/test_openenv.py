"""``env=openenv`` against a server of the installed openenv-core, on this machine."""

import socket
import threading
import time
from importlib import import_module
from itertools import islice

import pytest

from bepo.core.batch import Terminal
from bepo.core.errors import UserError
from bepo.envs import environments, started
from bepo.testing import contract

pytest.importorskip("openenv.core", reason="openenv-core is not installed: pip install 'openenv-core>=0.3,<0.4'")

import uvicorn
from openenv.core.env_server import interfaces, types
from openenv.core.env_server.http_server import create_fastapi_app


class Guess(types.Action):
    text: str


class Hint(types.Observation):
    hint: str = ""


class GuessEnvironment(interfaces.Environment):
    """Guess a number from 0 to 9, which the seed decides."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, episode_id=None, **kwargs):
        self._number, self._steps = (seed or 0) % 10, 0
        return Hint(hint="Guess a number from 0 to 9.", done=False, reward=0.0)

    def step(self, action, timeout_s=None, **kwargs):
        if not action.text.isdecimal():
            return Hint(hint="That is not a number.", done=False, reward=0.0)
        guess = int(action.text)
        right = guess == self._number
        hint = "Right." if right else "Too low." if guess < self._number else "Too high."
        return Hint(hint=hint, done=right, reward=float(right))

    @property
    def state(self):
        return types.State(episode_id="0", step_count=0)


@pytest.fixture(scope="module")
def url():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    app = create_fastapi_app(GuessEnvironment, Guess, Hint, max_concurrent_envs=200)
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


@pytest.fixture
def env(url):
    return environments.make("openenv", id="GuessEnvironment", url=url, horizon=5)


@pytest.mark.parametrize("check", contract("env"))
def test_contract(check, env):
    check(env)


def test_an_episode_is_a_session_with_its_seed(env):
    tasks = list(islice(env.tasks("train"), 3))
    episodes = env.start(tasks)
    assert [o.text for o in episodes.observations] == ["Guess a number from 0 to 9."] * 3
    right = {i: str(task.data["seed"] % 10) for i, task in enumerate(tasks)}
    steps = episodes.step(right)
    assert all((s.terminal, s.reward, s.task_score) == (Terminal.SUCCESS, 1.0, 1.0) for s in steps.values())
    wrong = env.start(tasks).step({0: "x", 1: None})
    assert wrong[0].observation.text == "That is not a number." and wrong[1].terminal == Terminal.NONE


@pytest.mark.parametrize(
    "settings, told",
    [
        ({"id": "Other"}, "env.id=Other: the server at .* has the environment GuessEnvironment"),
        ({"action": "txt"}, "unknown env.action 'txt'; choices: text"),
        ({"observation": "hnt"}, "unknown env.observation 'hnt'; choices: hint"),
        ({"url": "http://127.0.0.1:9"}, "env.url=http://127.0.0.1:9: the server does not answer"),
        ({"url": "127.0.0.1:9"}, "must begin with http://"),
    ],
)
def test_what_cannot_be_used_is_one_line(url, settings, told):
    env = environments.make("openenv", **{"id": "GuessEnvironment", "url": url} | settings)
    with pytest.raises(UserError, match=told):
        env.start(list(islice(env.tasks("train"), 1)))


def test_the_end_of_a_batch_closes_its_sessions(env, monkeypatch):
    opened, closed = [], []
    client = import_module("openenv.core.generic_client").GenericEnvClient
    own = client.sync
    monkeypatch.setattr(client, "sync", lambda self: _noted(own(self), opened, closed))
    tasks = list(islice(env.tasks("train"), 3))
    with pytest.raises(KeyboardInterrupt), started(env, tasks) as episodes:
        episodes.step({0: str(tasks[0].data["seed"] % 10)})
        assert len(closed) == 1  # its episode has ended
        raise KeyboardInterrupt
    assert len(opened) == len(closed) == len({*closed}) == 3


def _noted(session, opened, closed):
    close = session.close
    opened.append(session)
    session.close = lambda: (closed.append(id(session)), close())
    return session
