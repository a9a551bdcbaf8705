"""Fidelity on an environment's own games. They are too large to enumerate, so the truth is sampled by continuations.

The policy is known: with a chosen probability it takes the expert's action, else any listed action. The value of a
state at a step is the mean success of continuations of a copy of the game. Two halves of the continuations give two
independent estimates of each advantage, so that their noise cancels in ``error``. Sizes: N transitions, G games.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from random import Random

import numpy as np
from jaxtyping import Float

from bepo.core.batch import RolloutBatch
from bepo.core.errors import unknown_choice
from bepo.credit import Credit
from bepo.envs import Environment
from bepo.envs.alfworld import ALFWorld
from bepo.envs.webshop import WebShop
from bepo.lab.gain import KL
from bepo.lab.games import Game, Household, Shopping
from bepo.lab.played import GameSettings, Played, play, skill_for

SAMPLED = {
    "error": "share of the true advantage's square that is missed, after the best scale (0 perfect, 1 no signal)",
    "gain": "rise in success, to first order, by an update of these trajectories and a KL of 0.1 a step, as a share of "
    "that by their sampled true advantages",
    "sign_error": "share of transitions of the wrong sign where the sampled |A| > 0.25; an estimate of 0 counts half",
    "zero": "share of transitions with an advantage of exactly 0",
}
"""What is measured of an estimator, for each game."""
_CLEAR = 0.25


@dataclass(frozen=True)
class Sampled:
    """The rollouts of one update, and as many more that it does not see."""

    update: Played
    held_out: Played


def games_of(env: Environment, n: int) -> list[Game]:
    """Return the first ``n`` training games. Raises ``UserError`` for an environment whose games cannot be copied."""
    if isinstance(env, WebShop):
        return [Shopping(env, task) for task in islice(env.tasks("train"), n)]
    if isinstance(env, ALFWorld):
        return [Household(env, task) for task in islice(env.tasks("train"), n)]
    raise unknown_choice("env of lab sampled", env.name, ("alfworld", "webshop"))


def sample(env: Environment, how: GameSettings, report: Callable[[], object] = lambda: None) -> Sampled:
    """Play groups of each game and continue every state, twice; ``report`` is called after each game."""
    games, rng = games_of(env, how.games), Random(how.seed)
    skill, moves = skill_for(games, env.horizon, how.success, rng), {}
    update = play(games, skill, env.horizon, how, rng, moves, report)
    return Sampled(update, play(games, skill, env.horizon, how, Random(f"{how.seed} held out"), moves, report))


def measure(credit_of: Callable[[RolloutBatch], Credit], sampled: Sampled) -> dict[str, Float[np.ndarray, " G"]]:
    """Return every measure of ``SAMPLED`` for each game.

    The error and the sign error are NaN where no true advantage differs from 0, the gain where the true advantages give
    no rise over all games.
    """
    estimate, update = np.asarray(credit_of(sampled.update.batch).advantage, float), sampled.update
    true, of_games = update.advantage, update.of_games
    square, power = of_games(update.first * update.second), of_games(estimate**2)
    product = of_games(estimate * true)
    signal = np.divide(product**2, power * square, out=np.zeros_like(power), where=(power > 0) & (square > 0))
    reference = rise(true, sampled).mean()
    clear = np.abs(true) > _CLEAR
    wrong = np.where(estimate == 0, 0.5, np.sign(estimate) != np.sign(true)) * clear
    share = of_games(clear.astype(float))
    return {
        "error": np.where(square > 0, 1 - signal, np.nan),
        "gain": rise(estimate, sampled) / (reference if reference > 0 else np.nan),
        "sign_error": np.divide(of_games(wrong), share, out=np.full_like(power, np.nan), where=share > 0),
        "zero": of_games((estimate == 0).astype(float)),
    }


def rise(estimate: Float[np.ndarray, " N"], sampled: Sampled) -> Float[np.ndarray, " G"]:
    """Return for each game the rise in success by the update, to first order, for a mean KL of 0.1 a step.

    The update moves the logits of actions at each key, as ``gain`` does. The slope and the KL are means over the
    transitions that are held out. The rise is 0 where those saw nothing of the update.
    """
    update, held_out = sampled.update.listed, sampled.held_out.listed
    moves = 1 + max(int(update.move.max()), int(held_out.move.max()))
    logit = np.bincount(update.chosen, weights=estimate, minlength=moves)
    logit -= np.bincount(update.move, weights=estimate[update.row] * update.probability, minlength=moves)
    mean = held_out.sum(held_out.probability * logit[held_out.move])
    kl = held_out.sum(held_out.probability * (logit[held_out.move] - mean[held_out.row]) ** 2) / 2
    slope = (logit[held_out.chosen] - mean) * sampled.held_out.advantage
    steps = np.bincount(sampled.held_out.game) / np.bincount(sampled.held_out.game[sampled.held_out.batch.last])
    slope, kl = sampled.held_out.of_games(slope) * steps, sampled.held_out.of_games(kl)
    return np.divide(slope * np.sqrt(KL), np.sqrt(kl), out=np.zeros_like(slope), where=kl > 0)
