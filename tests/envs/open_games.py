"""Games of Gymnasium and GEM that are open until ``close``: each notes itself as a file in ``$OPEN_GAMES``.

``$GAME_FAILS`` names a method that fails in the third game and all later ones: ``make``, ``reset`` or ``step``.
"""

import os
import uuid
from pathlib import Path

import gem.core
import gymnasium
from gem.envs.registration import register
from gymnasium import spaces

STEPS = 3  # to success
CELLS = range(STEPS)


class Noted:
    """A game that notes that it is open."""

    made = 0

    def open(self):
        Noted.made += 1
        self.number = Noted.made
        self.fails_at("make")
        self.file = Path(os.environ["OPEN_GAMES"], uuid.uuid4().hex)
        self.file.touch()

    def fails_at(self, method):
        if self.number > 2 and os.environ.get("GAME_FAILS") == method:
            raise OSError(f"{method} failed")

    def begin(self):
        self.fails_at("reset")
        self.at = 0
        return f"at {self.at}"

    def go(self, forward):
        self.fails_at("step")
        self.file.stat()  # fails after its end
        self.at += forward
        return f"at {self.at}", self.at == STEPS

    def close(self):
        if self.file.exists():
            self.file.unlink()
        else:
            Path(os.environ["OPEN_GAMES"], "twice").touch()


class Gym(Noted, gymnasium.Env):
    """Walk to the right."""

    metadata = {"render_modes": []}

    def __init__(self, render_mode=None, table=False):
        self.action_space, self.observation_space = spaces.Discrete(2), spaces.Discrete(STEPS + 1)
        if table:  # an expert can be made from it
            self.P = {
                cell: {
                    action: [(1.0, cell + action, float(cell + action == STEPS), cell + action == STEPS)]
                    for action in (0, 1)
                }
                for cell in CELLS
            }
            self.P[STEPS] = {action: [(1.0, STEPS, 0.0, True)] for action in (0, 1)}
        self.open()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.begin()
        return self.at, {}

    def step(self, action):
        _, done = self.go(int(action))
        return self.at, float(done), done, False, {}


class Gem(Noted, gem.core.Env):
    """The same in words."""

    def __init__(self, **_):
        self.open()

    def reset(self, seed=None):
        super().reset(seed=seed)
        return self.begin(), {}

    def step(self, action):
        text, done = self.go("right" in action)
        return text, float(done), done, False, {}

    def sample_random_action(self):
        return "\\boxed{right}"


gymnasium.register("Open-v0", entry_point=Gym, max_episode_steps=8)
register("open:Game", Gem)
