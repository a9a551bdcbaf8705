"""Fidelity on an environment's own games, which are too large to enumerate: the truth is sampled by continuations.

The policy is known: with a chosen probability it takes the expert's action, else any listed action. The value of a
state at a step is the mean success of continuations of a copy of the game. Two halves of the continuations give two
independent estimates of each advantage, so that their noise cancels in ``error``. Sizes: N transitions, G games.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError, unknown_choice
from bepo.core.settings import Settings, setting
from bepo.credit import Credit
from bepo.envs import Environment
from bepo.envs.alfworld import ALFWorld
from bepo.envs.webshop import WebShop
from bepo.lab.games import REWARD, Game, Household, Shopping

SAMPLED = {
    "error": "share of the true advantage's square that is missed, after the best scale (0 perfect, 1 no signal)",
    "sign_error": "share of transitions of the wrong sign where the sampled |A| > 0.25; an estimate of 0 counts half",
    "zero": "share of transitions with an advantage of exactly 0",
}
"""What is measured of an estimator, for each game."""
_CLEAR = 0.25
_CALIBRATION = 24  # episodes of each game that say how often a policy succeeds


@dataclass
class GameSettings(Settings):
    """How many games are played, by which policy, and how the truth is sampled."""

    games: int = setting(6, at_least=1, at_most=1000)
    groups: int = setting(4, at_least=1)
    """Groups of each game."""
    group_size: int = setting(8, at_least=1)
    """K, trajectories of a group."""
    success: float = setting(0.3, above=0, below=1)
    """Success rate of the policy over the games."""
    continuations: int = setting(16, at_least=2)
    """Continuations of each state; half of them for each of the two estimates."""
    keys: Literal["seen", "hidden"] = "seen"
    """Which states count as equal: those that look alike to the agent, or those that are the same in the engine."""
    seed: int = setting(0, at_least=0)

    group = "lab"


@dataclass(frozen=True)
class Sampled:
    """Rollouts of G games with two independent estimates of the true advantage."""

    batch: RolloutBatch
    game: Int[np.ndarray, " N"]
    first: Float[np.ndarray, " N"]
    second: Float[np.ndarray, " N"]
    success: float
    continued: int  # states that were continued


def games_of(env: Environment, n: int) -> list[Game]:
    """Return the first ``n`` training games. Raises ``UserError`` for an environment whose games cannot be copied."""
    if isinstance(env, WebShop):
        return [Shopping(env, task) for task in islice(env.tasks("train"), n)]
    if isinstance(env, ALFWorld):
        return [Household(env, task) for task in islice(env.tasks("train"), n)]
    raise unknown_choice("env of lab sampled", env.name, ("alfworld", "webshop"))


def sample(env: Environment, how: GameSettings, report: Callable[[], object] = lambda: None) -> Sampled:
    """Play groups of each game and continue every state; ``report`` is called after each game."""
    games, rng = games_of(env, how.games), Random(how.seed)
    skill = _skill_for(games, env.horizon, how.success, rng)
    rows: list[dict[str, Any]] = []
    owner: list[int] = []
    estimates: list[tuple[float, float]] = []
    wins, continued = 0, 0
    for number, game in enumerate(games):
        truth = _Truth(skill, env.horizon, how.continuations // 2, rng)
        for group in range(how.groups):
            for member in range(how.group_size):
                played = _play(game, skill, env.horizon, rng, truth, how.keys == "hidden")
                own = [{**row, "uid": (number, group), "traj": member} for row, _ in played]
                rows += own
                owner += [number] * len(own)
                estimates += [advantage for _, advantage in played]
                wins += own[-1]["done"] == "success"
        continued += len(truth)
        report()
    batch = RolloutBatch.from_rows(rows)
    first, second = np.array(estimates)[batch.row].T
    return Sampled(batch, np.array(owner)[batch.row], first, second, wins / batch.n_trajectories, continued)


def measure(credit_of: Callable[[RolloutBatch], Credit], sampled: Sampled) -> dict[str, Float[np.ndarray, " G"]]:
    """Return every measure of ``SAMPLED`` for each game; NaN where no advantage differs from 0."""
    estimate = np.asarray(credit_of(sampled.batch).advantage, float)
    mean = (sampled.first + sampled.second) / 2
    n = int(sampled.game.max()) + 1

    def of_games(x: np.ndarray) -> np.ndarray:
        return np.bincount(sampled.game, weights=x, minlength=n) / np.bincount(sampled.game, minlength=n)

    square, own = of_games(sampled.first * sampled.second), of_games(estimate**2)
    product = of_games(estimate * mean)
    signal = np.divide(product**2, own * square, out=np.zeros(n), where=(own > 0) & (square > 0))
    clear = np.abs(mean) > _CLEAR
    wrong = np.where(estimate == 0, 0.5, np.sign(estimate) != np.sign(mean)) * clear
    share = of_games(clear.astype(float))
    return {
        "error": np.where(square > 0, 1 - signal, np.nan),
        "sign_error": np.divide(of_games(wrong), share, out=np.full(n, np.nan), where=share > 0),
        "zero": of_games((estimate == 0).astype(float)),
    }


def _choose(game: Game, skill: float, rng: Random) -> str:
    """Return an action: the expert's with probability ``skill``, else any that is listed."""
    action = game.expert if rng.random() < skill else None
    return action if action is not None else rng.choice(game.listed)


def _wins(game: Game, skill: float, steps: int, rng: Random) -> bool:
    """Continue a copy of a game for at most ``steps`` steps; return whether it succeeds."""
    game = game.copy()
    for _ in range(steps):
        success = game.step(_choose(game, skill, rng))
        if success is not None:
            return success
    return False


class _Truth:
    """Two sampled values of each state and number of steps left, kept for states that are met again."""

    def __init__(self, skill: float, horizon: int, m: int, rng: Random) -> None:
        self._skill, self._horizon, self._m, self._rng = skill, horizon, m, rng
        self._known: dict[Hashable, Float[np.ndarray, " 2"]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __call__(self, game: Game, taken: int) -> Float[np.ndarray, " 2"]:
        left = self._horizon - taken
        if left == 0:
            return np.zeros(2)
        if (key := (game.key, left)) not in self._known:
            won = [_wins(game, self._skill, left, self._rng) for _ in range(2 * self._m)]
            self._known[key] = np.array(won, float).reshape(2, -1).mean(1)
        return self._known[key]


def _play(
    start: Game, skill: float, horizon: int, rng: Random, truth: _Truth, hidden: bool
) -> list[tuple[dict[str, Any], tuple[float, float]]]:
    """Play an episode; return its rows, each with two estimates of the true advantage."""
    game, played = start.copy(), []
    value, key = truth(game, 0), str(game.key) if hidden else game.seen
    for step in range(horizon):
        action = _choose(game, skill, rng)
        success = game.step(action)
        after = truth(game, step + 1) if success is None else np.full(2, float(success))
        ends = "truncation" if step == horizon - 1 else None
        done = ends if success is None else "success" if success else "failure"
        following = str(game.key) if hidden else game.seen
        row = {"t": step, "obs": key, "next": following, "r": REWARD * bool(success), "done": done, "valid": True}
        played.append((row | {"action": action}, tuple(after - value)))
        value, key = after, following
        if done:
            break
    return played


def _skill_for(games: Sequence[Game], horizon: int, wanted: float, rng: Random) -> float:
    """Return the share of the expert's actions with which the games succeed about as often as wanted.

    Raises ``UserError`` if the expert itself does not reach the rate, or if any actions exceed it.
    """
    if _rate(games, 1.0, horizon, rng) < wanted:
        raise UserError(f"success={wanted:g}: the expert does not reach this rate within {horizon} steps")
    low, high = 0.0, 1.0
    for _ in range(7):
        middle = (low + high) / 2
        low, high = (low, middle) if _rate(games, middle, horizon, rng) > wanted else (middle, high)
    if low == 0 and (least := _rate(games, 0.0, horizon, rng)) > wanted:
        raise UserError(f"success={wanted:g}: any listed actions succeed in {least:.2f} of the episodes")
    return (low + high) / 2


def _rate(games: Sequence[Game], skill: float, horizon: int, rng: Random) -> float:
    won = [_wins(game, skill, horizon, rng) for game in games for _ in range(_CALIBRATION)]
    return sum(won) / len(won)
