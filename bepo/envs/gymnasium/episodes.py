"""A batch of episodes in environments of Gymnasium."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from bepo.core.batch import Terminal
from bepo.core.errors import UserError
from bepo.envs import Observation, Step
from bepo.envs._foreign import OpenEnvironments, named
from bepo.envs._values import begun, stepped
from bepo.envs.gymnasium.making import Maker
from bepo.envs.gymnasium.tabular import best_actions


class GymnasiumEpisodes:
    """Running episodes, each in a separate environment."""

    def __init__(self, maker: Maker, seeds: Sequence[int], horizon: int) -> None:
        """Start one episode for each seed; ``horizon`` is the time limit, a success in some environments."""
        self._maker, self._horizon = maker, horizon
        self._taken = [0] * len(seeds)  # steps with an action
        self._open = OpenEnvironments()
        self._plans: dict[int, Int[np.ndarray, " S"]] = {}  # the expert's, by episode; -1: for all
        self._states: list[Any] = [None] * len(seeds)
        self.instructions = [""] * len(seeds)
        try:
            self._envs = [self._open.add(i, maker.make(seed)) for i, seed in enumerate(seeds)]
            with named(maker.id, "reset"):
                starts = [env.reset(seed=seed) for env, seed in zip(self._envs, seeds)]
                self.observations = [self._read(i, *begun(maker.id, start)) for i, start in enumerate(starts)]
        except BaseException:
            self.close()
            raise

    def step(self, actions: Mapping[int, str | None]) -> dict[int, Step]:
        """Act in some episodes; None changes nothing but counts as a step."""
        return {i: self._step(i, action) for i, action in actions.items()}

    def close(self) -> None:
        """Close all environments."""
        self._open.close_all()

    def expert(self, index: int) -> str | None:
        """Return an optimal action, or None if success is out of reach."""
        place = index if self._maker.random_map else -1
        if place not in self._plans:
            table = vars(self._envs[index].unwrapped)["P"]
            self._plans[place] = best_actions(table, self._maker.family.ends_in_success)
        action = int(self._plans[place][self._states[index]])
        return None if action < 0 else self._maker.words[action]

    def expert_steps(self, index: int) -> float:
        """Return NaN: the number of steps to success is random."""
        return float("nan")

    def _step(self, i: int, action: str | None) -> Step:
        reward, ended, cut = 0.0, False, False
        if action is not None:
            self._taken[i] += 1
            with named(self._maker.id, "step"):
                values = self._envs[i].step(self._maker.words.index(action))
                observation, reward, ended, cut, info = stepped(self._maker.id, values)
                self.observations[i] = self._read(i, observation, info)
        family = self._maker.family
        if family.lasts:
            success = not ended and self._taken[i] >= self._horizon
        else:
            success = ended and (reward > 0 or family.ends_in_success)
        terminal = Terminal.SUCCESS if success else Terminal.FAILURE if ended else Terminal.NONE
        if ended or cut:
            self._open.close(i)
        return Step(self.observations[i], reward, terminal, float(success), broken=cut and not ended)

    def _read(self, i: int, observation: object, info: Mapping[str, Any]) -> Observation:
        self._states[i] = observation
        text = self._maker.text(self._envs[i], observation)
        n = len(self._maker.words)
        allowed = np.asarray(info.get("action_mask", np.ones(n)))  # Taxi masks actions without effect
        if allowed.shape != (n,) or allowed.dtype.kind not in "biuf":
            given = f"is {allowed.dtype} of shape {allowed.shape}"
            raise UserError(f"env.id={self._maker.id}: its action_mask {given}, must be numbers of shape ({n},)")
        words = tuple(word for word, may in zip(self._maker.words, allowed) if may)
        return Observation(text, key=text, admissible=words or self._maker.words)
