"""GraphGPO's augmented observations: the observation, and what the player has done so far.

RECONSTRUCTION from a description of GraphGPO's recipe. The parts and their order are known; the wording for an empty
hand is ours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from bepo.envs.alfworld.engine import NOTHING_HAPPENS

ALL_WORDS = (
    "Location Items in hand (status): unprocessed heated cooled cleaned sliced [History moving list by you: from ? ;]"
)
"""The words that augmented observations add, for the vocabulary."""
_GO = re.compile(r"go to (.+)")
_TAKE = re.compile(r"take (.+) from (.+)")
_PUT = re.compile(r"(?:move|put) (.+) (?:to|in/on) (.+)")
_CHANGE = re.compile(r"(heat|cool|clean|slice) (.+) with (.+)")
_STATES = {"heat": "heated", "cool": "cooled", "clean": "cleaned", "slice": "sliced"}


@dataclass
class Memory:
    """The player's location, hand and moves, as the commands and feedback of an episode tell them."""

    location: str = "middle of a room"
    held: str | None = None
    states: dict[str, list[str]] = field(default_factory=dict)  # object -> what was done to it
    taken_from: dict[str, str] = field(default_factory=dict)  # object -> receptacle
    moves: list[str] = field(default_factory=list)  # one phrase for each object that was put somewhere

    def update(self, command: str, feedback: str) -> None:
        """Add one step; a refused command ("Nothing happens.") changes nothing."""
        if feedback == NOTHING_HAPPENS:
            return
        if match := _GO.fullmatch(command):
            self.location = match[1]
        elif match := _TAKE.fullmatch(command):
            self.held, self.taken_from[match[1]] = match[1], match[2]
        elif match := _PUT.fullmatch(command):
            item, receptacle = match[1], match[2]
            self.held = None
            origin = self.taken_from.get(item, "?")
            self.moves.append(f"{self._with_states(item)} from {origin} move to {receptacle}")
        elif match := _CHANGE.fullmatch(command):
            states = self.states.setdefault(match[2], [])
            if _STATES[match[1]] not in states:
                states.append(_STATES[match[1]])

    def text(self, observation: str) -> str:
        """Return the observation with the memory appended, for the prompt."""
        held = self._with_states(self.held) if self.held else "nothing"
        history = f" [History moving list by you: {'; '.join(self.moves)}]" if self.moves else ""
        return f"{observation} Location: {self.location}. Items in hand (status): {held}.{history}"

    def key(self, observation: str, admissible: Sequence[str]) -> str:
        """Return the key of the state: ``text`` with the admissible commands appended."""
        return f"{self.text(observation)} {','.join(sorted(admissible))}"

    def _with_states(self, item: str) -> str:
        return f"{item}({','.join(self.states.get(item, ['unprocessed']))})"
