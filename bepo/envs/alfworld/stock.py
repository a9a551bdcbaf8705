"""The stock engine: textworld's PDDL environment with the packaged demangler, one game at a time."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from bepo.errors import Missing

REMEDY = "pip install --constraint requirements/constraints.txt --editable '.[alfworld]'"


class StockGame:
    """One game on textworld. ``step`` may be called after the end; it goes on."""

    def __init__(self, game_file: Mapping) -> None:
        try:
            import textworld
            from alfworld.agents.utils.misc import Demangler
            from textworld.envs.pddl import PddlEnv
        except ImportError as error:
            raise Missing(f"textworld is not installed ({error})", REMEDY) from error
        argv = sys.argv
        try:  # fast_downward writes over it
            self._env = PddlEnv(textworld.EnvInfos(won=True, admissible_commands=True, facts=True))
            self._env.load(dict(game_file))
            infos = self._env._entity_infos
            demangler = Demangler(game_infos=infos)
            for info in infos.values():
                info.name = demangler.demangle_alfred_name(info.id)
        finally:
            sys.argv = argv

    def reset(self) -> str:
        argv = sys.argv
        try:
            self.state = self._env.reset()
        finally:
            sys.argv = argv
        return self.state.feedback

    def step(self, command: str) -> str:
        self.state, _, _ = self._env.step(command)
        return self.state.feedback

    @property
    def admissible(self) -> tuple[str, ...]:
        return tuple(self.state["admissible_commands"])

    @property
    def won(self) -> bool:
        return bool(self.state["won"])
