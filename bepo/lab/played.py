"""Episodes of a known policy in an environment's own games, with the true advantage sampled by continuations.

The policy takes the expert's action with a chosen probability, else any listed action. Sizes: N transitions, L listed
actions of all of them, G games.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError
from bepo.core.settings import Settings, setting
from bepo.lab.games import REWARD, Game

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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.continuations % 2:
            raise UserError(f"lab.continuations={self.continuations}: must be even, half for each estimate")


@dataclass(frozen=True)
class Listed:
    """What the policy might have done in each transition. Equal numbers are equal actions at equal observations."""

    row: Int[np.ndarray, " L"]  # the transition
    move: Int[np.ndarray, " L"]
    probability: Float[np.ndarray, " L"]
    chosen: Int[np.ndarray, " N"]  # the move that was made

    def sum(self, x: Float[np.ndarray, " L"]) -> Float[np.ndarray, " N"]:
        """Return the sum over the listed actions of each transition."""
        return np.bincount(self.row, weights=x, minlength=len(self.chosen))


@dataclass(frozen=True)
class Played:
    """Rollouts of G games with two independent estimates of the true advantage."""

    batch: RolloutBatch
    game: Int[np.ndarray, " N"]
    first: Float[np.ndarray, " N"]
    second: Float[np.ndarray, " N"]
    listed: Listed
    continued: int  # states that were continued

    @property
    def advantage(self) -> Float[np.ndarray, " N"]:
        """The mean of both estimates."""
        return (self.first + self.second) / 2

    def of_games(self, x: Float[np.ndarray, " N"]) -> Float[np.ndarray, " G"]:
        """Return the mean over the transitions of each game."""
        return np.bincount(self.game, weights=x) / np.bincount(self.game)


def play(
    games: Sequence[Game],
    skill: float,
    horizon: int,
    how: GameSettings,
    rng: Random,
    moves: dict[tuple[int, str, str], int],
    report: Callable[[], object],
) -> Played:
    """Play groups of each game and continue every state; ``report`` is called after each game.

    ``moves`` has the number of each action at each key of a game, and grows.
    """
    rows: list[dict[str, Any]] = []
    owner: list[int] = []
    estimates: list[tuple[float, float]] = []
    listed: list[dict[str, float]] = []
    continued = 0
    for number, game in enumerate(games):
        truth = _Truth(skill, horizon, how.continuations // 2, rng)
        for group in range(how.groups):
            for member in range(how.group_size):
                episode = _play(game, skill, horizon, rng, truth, how.keys == "hidden")
                rows += [{**step.row, "uid": (number, group), "traj": member} for step in episode]
                estimates += [step.advantage for step in episode]
                listed += [step.probability for step in episode]
                owner += [number] * len(episode)
        continued += len(truth)
        report()
    batch = RolloutBatch.from_rows(rows)
    first, second = np.array(estimates)[batch.row].T
    game_of = np.array(owner)[batch.row]

    def number_of(row: int, action: str) -> int:
        return moves.setdefault((owner[row], rows[row]["obs"], action), len(moves))

    every = [(i, number_of(row, a), p) for i, row in enumerate(batch.row) for a, p in listed[row].items()]
    row_of, move, probability = zip(*every)
    chosen = [number_of(row, rows[row]["action"]) for row in batch.row]
    could = Listed(np.array(row_of), np.array(move), np.array(probability), np.array(chosen))
    return Played(batch, game_of, first, second, could, continued)


def skill_for(games: Sequence[Game], horizon: int, wanted: float, rng: Random) -> float:
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


@dataclass(frozen=True)
class _Step:
    row: dict[str, Any]
    advantage: tuple[float, float]
    probability: dict[str, float]


def _play(start: Game, skill: float, horizon: int, rng: Random, truth: _Truth, hidden: bool) -> list[_Step]:
    """Play an episode."""
    game, played = start.copy(), []
    value, key = truth(game, 0), str(game.key) if hidden else game.seen
    for step in range(horizon):
        probability = _policy(game, skill)
        action = _choose(game, skill, rng)
        success = game.step(action)
        after = truth(game, step + 1) if success is None else np.full(2, float(success))
        ends = "truncation" if step == horizon - 1 else None
        done = ends if success is None else "success" if success else "failure"
        following = str(game.key) if hidden else game.seen
        row = {"t": step, "obs": key, "next": following, "r": REWARD * bool(success), "done": done, "valid": True}
        played.append(_Step(row | {"action": action}, tuple(after - value), probability))
        value, key = after, following
        if done:
            break
    return played


def _policy(game: Game, skill: float) -> dict[str, float]:
    """Return the probability of each action."""
    listed, expert = game.listed, game.expert
    skill = 0.0 if expert is None else skill
    policy = dict.fromkeys(listed, 0.0)
    for action in listed:
        policy[action] += (1 - skill) / len(listed)
    if expert is not None:
        policy[expert] = policy.get(expert, 0.0) + skill
    return policy


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


def _rate(games: Sequence[Game], skill: float, horizon: int, rng: Random) -> float:
    won = [_wins(game, skill, horizon, rng) for game in games for _ in range(_CALIBRATION)]
    return sum(won) / len(won)
