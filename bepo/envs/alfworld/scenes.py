"""The scenes of generated games: the receptacles of a scene, and the objects that can be in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache, cached_property
from random import Random

from bepo.envs.alfworld import package_data
from bepo.envs.alfworld.names import mangle

# The layouts of the alfworld wheel give no coordinates for these types. A scene with such a type gets this many of it.
_COUNT_WITHOUT_COORDINATES = {
    "StoveBurner": 4,
    "CoffeeMachine": 1,
    "Toaster": 1,
    "GarbageCan": 1,
    "LaundryHamper": 1,
    "HandTowelHolder": 2,
    "TowelHolder": 1,
    "ToiletPaperHanger": 1,
    "Microwave": 1,
    "Fridge": 1,
    "Toilet": 1,
    "Sofa": 1,
    "ArmChair": 1,
    "Bed": 1,
    "Desk": 1,
    "Dresser": 1,
    "CoffeeTable": 1,
    "SideTable": 1,
    "DiningTable": 1,
    "CounterTop": 1,
    "Safe": 1,
    "TVStand": 1,
    "Ottoman": 1,
    "Cart": 1,
}
_LAMP_STANDS = ("Desk", "SideTable", "Dresser", "Shelf", "CoffeeTable", "DiningTable", "TVStand", "ArmChair", "Sofa")
_KNIVES = ("Knife", "ButterKnife")


@dataclass(frozen=True)
class Receptacle:
    """A receptacle of a scene."""

    id: str  # as a PDDL name
    type: str
    name: str  # the name that players see, such as "cabinet 3"
    openable: bool
    location: str  # the PDDL name of the place where the player stands to use it


class Scene:
    """A floor plan: everything that the games in it share."""

    def __init__(self, number: int, max_receptacles: int | None = None) -> None:
        """Read floor plan ``number``.

        Only the first ``max_receptacles`` receptacles are kept: first one of each type, then others in sorted order.
        """
        self.number = number
        tables = package_data.constants()
        contents = tables["VAL_RECEPTACLE_OBJECTS"]
        present, placed = package_data.scene(number)
        self.receptacles = _receptacles(_ids(number, present, placed, max_receptacles), tables["OPENABLE_CLASS_SET"])
        self.types = sorted({r.type for r in self.receptacles})
        """The types of its receptacles."""
        movable = {o for kind in self.types for o in contents[kind]} - set(contents) | tables["MOVABLE_RECEPTACLES_SET"]
        self.objects = sorted(set(present) & movable)
        """The types of objects that can be carried."""
        self.lamps = sorted(set(present) & tables["VAL_ACTION_OBJECTS"]["Toggleable"])
        """The types of lamps."""

    @cached_property
    def room(self) -> str:
        """Return the type of the scene, such as Kitchen."""
        return next(name for name, numbers in package_data.constants()["SCENE_TYPE"].items() if self.number in numbers)

    @cached_property
    def places(self) -> dict[str, list[Receptacle]]:
        """Return the receptacles that can hold an object or lamp of each type."""
        contents = package_data.constants()["VAL_RECEPTACLE_OBJECTS"]
        places = {o: [r for r in self.receptacles if o in contents[r.type]] for o in self.objects}
        stands = [r for r in self.receptacles if r.type in _LAMP_STANDS]
        stands = stands or [r for r in self.receptacles if not r.openable]
        return places | {lamp: stands for lamp in self.lamps}

    @cached_property
    def facts(self) -> str:
        """Return the PDDL facts about receptacles. All games of the scene share them."""
        contents = package_data.constants()["VAL_RECEPTACLE_OBJECTS"]
        lines = []
        for r in self.receptacles:
            lines.append(f"(receptacleType {r.id} {r.type}Type)")
            lines.append(f"(receptacleAtLocation {r.id} {r.location})")
            if r.openable:
                lines.append(f"(openable {r.id})")
        for kind in self.types:
            lines += [f"(canContain {kind}Type {o}Type)" for o in self.objects if o in contents[kind]]
        return "\n        ".join(lines)

    @cached_property
    def declarations(self) -> str:
        """Return the PDDL declarations of receptacles, locations and types."""
        lines = [f"{r.id} - receptacle\n        {r.location} - location" for r in self.receptacles]
        lines += [f"{o}Type - otype" for o in sorted({*self.objects, *self.lamps, *_KNIVES})]
        lines += [f"{kind}Type - rtype" for kind in sorted({*self.types, "SinkBasin", "Microwave", "Fridge"})]
        return "\n        ".join(lines)


@cache
def scene(number: int, max_receptacles: int | None = None) -> Scene:
    """Return a scene from the cache."""
    return Scene(number, max_receptacles)


def _ids(number: int, present: list[str], placed: list[str], max_receptacles: int | None) -> list[str]:
    """Return the sorted ids of a scene's receptacles."""
    ids = [i for i in placed if _type(i) in package_data.constants()["VAL_RECEPTACLE_OBJECTS"]]
    for kind in sorted(set(present) & set(_COUNT_WITHOUT_COORDINATES) - {_type(i) for i in ids}):
        ids += _made_up_ids(number, kind, _COUNT_WITHOUT_COORDINATES[kind])
    return _first_of_each_type(sorted(ids, key=lambda i: mangle(i).lower()), max_receptacles)


def _receptacles(ids: list[str], openable: Collection[str]) -> list[Receptacle]:
    """Return the receptacles with these IDs, numbered like ``names.display_names``."""
    receptacles = []
    remaining = Counter(map(_type, ids))
    for n, i in enumerate(ids):
        kind = _type(i)
        name = f"{kind.lower()} {remaining[kind]}"
        receptacles.append(Receptacle(mangle(i).lower(), kind, name, kind in openable, f"loc_bar_{n}"))
        remaining[kind] -= 1
    return receptacles


def _type(receptacle: str) -> str:
    """Return the type of a receptacle by its id, such as ``Cabinet|+00.68|..`` or ``Sink|..|SinkBasin``."""
    parts = receptacle.split("|")
    return parts[-1] if parts[-1].endswith("Basin") else parts[0]


def _first_of_each_type(ids: list[str], most: int | None) -> list[str]:
    """Return at most ``most`` IDs in their order: the first of each type, then the second of each type, and so on."""
    if most is None or len(ids) <= most:
        return ids
    rank = {i: [_type(j) for j in ids[:n]].count(_type(i)) for n, i in enumerate(ids)}
    chosen = sorted(ids, key=lambda i: rank[i])[:most]
    return [i for i in ids if i in chosen]


def _made_up_ids(number: int, kind: str, count: int) -> list[str]:
    """Return IDs with made-up coordinates that are the same in every process."""
    rng = Random(f"{number} {kind}")
    return ["|".join([kind, *(f"{rng.uniform(-4, 4):+06.2f}" for _ in range(3))]) for _ in range(count)]
