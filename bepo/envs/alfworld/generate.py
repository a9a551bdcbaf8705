"""Seeded generation of games for all six task types, as the files of an ALFWorld game.

Scenes, affordances, goals and sentences come from the ``alfworld`` wheel; the places of objects are random. A game
depends only on its split, its number and the settings.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from bepo.envs.alfworld import package_data
from bepo.envs.alfworld.names import mangle
from bepo.envs.alfworld.scenes import Receptacle, Scene, scene

TASK_TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
"""The task types of ALFWorld (Shridhar et al., 2021), as ``traj_data.json`` names them."""
SPLITS = ("train", "valid_seen", "valid_unseen")
"""The splits of ALFWorld: ``valid_seen`` has the scenes of ``train``, ``valid_unseen`` has others."""
_CHANGES = {  # task type -> the affordance that the object must have, and the receptacle that changes it
    "pick_clean_then_place_in_recep": ("Cleanable", "SinkBasin"),
    "pick_heat_then_place_in_recep": ("Heatable", "Microwave"),
    "pick_cool_then_place_in_recep": ("Coolable", "Fridge"),
}
_MOST_OF_A_KIND = 3


@dataclass(frozen=True)
class GeneratedGame:
    """The files of one generated game, as data."""

    name: str  # <task type>-<object>-None-<receptacle or lamp>-<scene>/trial_G<number>
    traj_data: dict[str, Any]
    problem: str  # PDDL
    sentence: str  # the task

    @property
    def kind(self) -> str:
        """Return the task type."""
        return self.traj_data["task_type"]

    @property
    def game_file(self) -> dict[str, Any]:
        """Return the content of ``game.tw-pddl``."""
        return {
            "pddl_domain": package_data.domain(),
            "grammar": package_data.grammar().replace("UNKNOWN GOAL", self.sentence),
            "pddl_problem": self.problem,
            "solvable": True,
            "walkthrough": None,
        }

    def write(self, folder: Path) -> Path:
        """Write the three files of an ALFWorld game below ``folder``, and return the game's own folder."""
        path = folder / self.name
        path.mkdir(parents=True, exist_ok=True)
        (path / "traj_data.json").write_text(json.dumps(self.traj_data), encoding="utf-8")
        (path / "initial_state.pddl").write_text(self.problem, encoding="utf-8")
        (path / "game.tw-pddl").write_text(json.dumps(self.game_file), encoding="utf-8")
        return path


@dataclass(frozen=True)
class _PlacedObject:
    id: str  # as a PDDL name
    type: str
    receptacle: Receptacle


def generate(
    split: str, number: int, task_types: Sequence[str] = TASK_TYPES, max_receptacles: int | None = None
) -> GeneratedGame:
    """Return game ``number`` of a split of ``SPLITS``: task types take turns, everything else is random."""
    kind = task_types[number % len(task_types)]
    rng = Random(f"{split} {number}")
    room, target, parent = rng.choice(_goals(split, kind, max_receptacles))
    objects = _place_objects(rng, room, kind, target, parent)
    sentence = rng.choice(package_data.goals()[kind]["templates"]).format(
        obj=target.lower(), recep=parent.lower(), toggle=parent.lower()
    )
    light = kind == "look_at_obj_in_light"
    name = f"{kind}-{target}-None-{parent}-{room.number}/trial_G{number:08d}"
    return GeneratedGame(
        name,
        {
            "task_id": f"trial_G{number:08d}",
            "task_type": kind,
            "pddl_params": {
                "object_target": target,
                "parent_target": "" if light else parent,
                "mrecep_target": "",
                "toggle_target": parent if light else "",
                "object_sliced": False,
            },
            "scene": {"floor_plan": f"FloorPlan{room.number}", "scene_num": room.number},
            "turk_annotations": {"anns": [{"task_desc": sentence}]},
        },
        _problem(room, objects, kind, target, parent, number),
        sentence,
    )


@cache
def _goals(split: str, kind: str, max_receptacles: int | None) -> list[tuple[Scene, str, str]]:
    """Return every possible (scene, object type, receptacle or lamp type) of a task type."""
    tables = package_data.constants()
    numbers = tables["TEST_SCENE_NUMBERS" if split == "valid_unseen" else "TRAIN_SCENE_NUMBERS"]
    rooms = [s for n in numbers if (s := scene(n, max_receptacles)).room in tables["GOALS_VALID"][kind]]
    return [(s, *goal) for s in rooms for goal in _goals_of(s, kind, tables)]


def _goals_of(room: Scene, kind: str, tables: dict[str, Any]) -> list[tuple[str, str]]:
    """Return every possible (object type, receptacle or lamp type) in a scene."""
    objects = [o for o in room.objects if room.places[o]]
    if kind == "look_at_obj_in_light":
        return [(o, lamp) for lamp in room.lamps for o in objects]
    if kind in _CHANGES:
        able, where = _CHANGES[kind]
        objects = [o for o in objects if o in tables["VAL_ACTION_OBJECTS"][able] and where in room.types]
    contents = tables["VAL_RECEPTACLE_OBJECTS"]
    return [
        (o, parent)
        for o in objects
        for parent in room.types
        if o in contents[parent] and any(r.type != parent for r in room.places[o])
    ]


def _place_objects(rng: Random, room: Scene, kind: str, target: str, parent: str) -> list[_PlacedObject]:
    """Put objects into receptacles; no target starts in a receptacle of the goal's type."""
    objects = []
    for object_type in room.objects:
        if object_type == target:
            least = 2 if kind == "pick_two_obj_and_place" else 1
            count = rng.randint(least, _MOST_OF_A_KIND)
            places = [r for r in room.places[target] if r.type != parent]
        else:
            count = rng.choice((0, 1, 1, 2, _MOST_OF_A_KIND)) if len(room.objects) < 16 else rng.choice((0, 0, 1, 1, 2))
            places = room.places[object_type]
        if places:
            objects += [_place_object(rng, object_type, places) for _ in range(count)]
    return objects + [_place_object(rng, lamp, room.places[lamp]) for lamp in room.lamps]


def _place_object(rng: Random, object_type: str, places: Sequence[Receptacle]) -> _PlacedObject:
    coordinates = "|".join(f"{rng.randint(-400, 400) / 100:+06.2f}" for _ in range(3))
    return _PlacedObject(mangle(f"{object_type}|{coordinates}").lower(), object_type, rng.choice(places))


def _problem(room: Scene, objects: Sequence[_PlacedObject], kind: str, target: str, parent: str, number: int) -> str:
    """Return the PDDL problem of a game."""
    goal = package_data.goals()[kind]["pddl"].format(obj=target, recep=parent, toggle=parent).replace("#", "-")
    declared = "\n        ".join(f"{o.id} - object" for o in objects)
    facts = "\n        ".join(_facts(o) for o in objects)
    start = "loc_bar_start"
    return f"""(define (problem game_{number})
    (:domain alfred)
    (:objects
        agent1 - agent
        {start} - location
        {room.declarations}
        {declared}
    )
    (:init
        (= (total-cost) 0)
        (atLocation agent1 {start})
        {room.facts}
        {facts}
    )
{goal}"""


def _facts(item: _PlacedObject) -> str:
    i = item.id
    return (
        f"(objectAtLocation {i} {item.receptacle.location}) (inReceptacle {i} {item.receptacle.id}) "
        f"(objectType {i} {item.type}Type) {_affordances(item.type).replace('*', i)}"
    )


@cache
def _affordances(object_type: str) -> str:
    """Return the PDDL facts that say what can be done with an object of a type; * stands for the object."""
    tables = package_data.constants()
    able = tables["VAL_ACTION_OBJECTS"]
    facts = [] if object_type in able["Toggleable"] else ["(pickupable *)", "(moveable *)"]
    facts += [f"({name.lower()} *)" for name in sorted(able) if object_type in able[name]]
    if object_type in tables["MOVABLE_RECEPTACLES_SET"]:
        facts.append("(isReceptacleObject *)")
    return " ".join(facts)
