"""A privileged expert: it finds the next command of a short solution from the facts of the game and the task.

It reads only the current facts, so it can continue from any state of an episode.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bepo.envs.alfworld.engine import FastGame

_CHANGES = {  # task type -> action, the fact that it adds, type of the receptacle that it needs
    "pick_clean_then_place_in_recep": ("cleanobject", "isclean", "sinkbasintype"),
    "pick_heat_then_place_in_recep": ("heatobject", "ishot", "microwavetype"),
    "pick_cool_then_place_in_recep": ("coolobject", "iscool", "fridgetype"),
}


class Expert:
    """The expert of one episode. A *target* is an object of the task's object type."""

    def __init__(self, episode: FastGame, traj_data: Mapping[str, Any]) -> None:
        """``traj_data`` is the content of ``traj_data.json``: it must have ``task_type`` and ``pddl_params``."""
        params = traj_data["pddl_params"]
        self._episode = episode
        self._task = traj_data["task_type"]
        self._target = f"{params['object_target']}Type".lower()
        self._goal = f"{params['parent_target'] or params['toggle_target']}Type".lower()

    def command(self) -> str | None:
        """Return the next command, or None if the expert finds no solution."""
        facts = self._facts = self._episode.facts
        held = next((o for _, o in facts.all("holds")), None)
        if held is None:
            return self._fetch()
        if not facts.holds("objecttype", (held, self._target)):
            return self._put_away(held)
        if self._task == "look_at_obj_in_light":
            lamp = min(self._of_type(self._goal), default=None)
            return lamp and self._reach(self._receptacle(lamp), "toggleobject", lamp)
        if self._task in _CHANGES and not self._is_changed(held):
            action, _, where = _CHANGES[self._task]
            return self._at_nearest(self._receptacles(where), action, held)
        preferred = [r for r in self._receptacles(self._goal) if self._holds_first_target(r)]
        return self._at_nearest(preferred or self._receptacles(self._goal), "putobject", held)

    def _fetch(self) -> str | None:
        """Return the next command for picking up a target that is not in its final place yet."""
        places = {o: self._receptacle(o) for o in self._of_type(self._target)}
        places = {o: r for o, r in places.items() if r is not None and not self._is_placed(o)}
        if not places:
            return None
        best = min(places, key=lambda o: (not self._is_changed(o), self._steps_to(places[o]), o))
        return self._reach(places[best], "pickupobject", best)

    def _put_away(self, held: str) -> str | None:
        """Return the next command for putting down an object that is not a target."""
        facts = self._facts
        kinds = {t for o, t in facts.all("objecttype") if o == held}
        suitable = {rt for rt, ot in facts.all("cancontain") if ot in kinds}
        return self._at_nearest([r for r, t in facts.all("receptacletype") if t in suitable], "putobject", held)

    def _at_nearest(self, receptacles: list[str], action: str, item: str) -> str | None:
        """Return the next command for acting on an object at the nearest of some receptacles."""
        nearest = min(receptacles, key=lambda r: (self._steps_to(r), r), default=None)
        return nearest and self._reach(nearest, action, item)

    def _reach(self, receptacle: str | None, action: str, item: str) -> str | None:
        """Return the command that acts on an object at a receptacle, goes to the receptacle or opens it."""
        if receptacle is None:
            return None
        return (
            self._admissible_command(action, item, receptacle)
            or self._admissible_command("gotolocation", receptacle)
            or self._admissible_command("openobject", receptacle)
        )

    def _admissible_command(self, action: str, *arguments: str) -> str | None:
        for name, all_arguments, command in self._episode.applicable():
            if name == action and all(a in all_arguments for a in arguments):
                return command
        return None

    # --- looking at the facts ------------------------------------------------------------------------------

    def _of_type(self, kind: str) -> list[str]:
        return sorted(o for o, t in self._facts.all("objecttype") if t == kind)

    def _receptacles(self, kind: str) -> list[str]:
        return sorted(r for r, t in self._facts.all("receptacletype") if t == kind)

    def _receptacle(self, item: str) -> str | None:
        """Return the receptacle that contains an object."""
        return next((r for _, r in sorted(self._facts.index("inreceptacle", (0,)).get((item,), ()))), None)

    def _steps_to(self, receptacle: str) -> int:
        """Return the number of commands (0 to 2) until the content of a receptacle is in reach."""
        facts = self._facts
        here = {loc for _, loc in facts.all("atlocation")}
        there = {loc for _, loc in facts.index("receptacleatlocation", (0,)).get((receptacle,), ())}
        shut = facts.holds("openable", (receptacle,)) and not facts.holds("opened", (receptacle,))
        return int(not here & there) + int(shut)

    def _is_changed(self, item: str) -> bool:
        """Return whether an object has been cleaned, heated or cooled, as far as the task asks for it."""
        return self._task not in _CHANGES or self._facts.holds(_CHANGES[self._task][1], (item,))

    def _is_placed(self, item: str) -> bool:
        """Return whether an object is where the goal requires it; two targets must be in one receptacle."""
        receptacle = self._receptacle(item)
        if not self._is_changed(item) or receptacle not in self._receptacles(self._goal):
            return False
        return self._task != "pick_two_obj_and_place" or receptacle == self._fullest()

    def _holds_first_target(self, receptacle: str) -> bool:
        return self._task == "pick_two_obj_and_place" and receptacle == self._fullest()

    def _fullest(self) -> str | None:
        """Return the goal receptacle that holds most targets, or None if none holds any."""
        targets = self._of_type(self._target)
        counts = {r: sum(self._receptacle(o) == r for o in targets) for r in self._receptacles(self._goal)}
        fullest = max(counts, key=lambda r: (counts[r], r), default=None)
        return fullest if fullest and counts[fullest] else None
