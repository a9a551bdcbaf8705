"""A batch of WebShop sessions behind the interface of ``bepo.envs.Episodes``."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from bepo.core.batch import Terminal
from bepo.envs import Observation, Step
from bepo.envs._walk import steps_to_success
from bepo.envs.webshop import text
from bepo.envs.webshop.expert import Expert
from bepo.envs.webshop.goals import Goal
from bepo.envs.webshop.pages import Session
from bepo.envs.webshop.views import PageView

REWARD = 10.0
"""The reward of a perfect purchase (verl-agent); every other step has the reward 0."""


class WebShopEpisodes:
    """A batch of independent sessions in one shop."""

    def __init__(self, sessions: Sequence[Session], view: PageView) -> None:
        self._sessions, self._view = sessions, view
        self._experts: dict[int, Expert] = {}
        self._known_steps: dict[Goal, dict[Hashable, float]] = {}
        self.observations = [self._observe(session) for session in sessions]
        self.instructions = [view.instruction(session) for session in sessions]

    def step(self, actions: Mapping[int, str | None]) -> dict[int, Step]:
        """Act in some sessions; None changes nothing."""
        return {i: self._step(i, action) for i, action in actions.items()}

    def expert(self, index: int) -> str | None:
        """Return the expert's next action, or None once the session is over."""
        action = self._expert_of(index).action()
        return None if action is None else self._view.action(self._sessions[index], *action)

    def expert_steps(self, index: int) -> float:
        """Return the number of the expert's actions from here to a perfect purchase."""
        known = self._known_steps.setdefault(self._sessions[index].goal, {})
        return steps_to_success(self._expert_of(index).ahead(), known)

    def _expert_of(self, index: int) -> Expert:
        session = self._sessions[index]
        if index not in self._experts:
            queries = self._view.queries(session) if self._view.suggestions else ()
            self._experts[index] = Expert(session, queries)
        return self._experts[index]

    def _observe(self, session: Session) -> Observation:
        key = text.page(session, self._view.mode)
        return Observation(self._view.page(session, key), key, self._view.admissible(session))

    def _step(self, i: int, action: str | None) -> Step:
        session = self._sessions[i]
        task_score = None if action is None else session.act(self._view.resolve(session, action))
        self.observations[i] = self._observe(session)
        if task_score is None:
            return Step(self.observations[i], 0.0, Terminal.NONE, 0.0)
        perfect = task_score == 1
        terminal = Terminal.SUCCESS if perfect else Terminal.FAILURE
        return Step(self.observations[i], REWARD * perfect, terminal, float(task_score))
