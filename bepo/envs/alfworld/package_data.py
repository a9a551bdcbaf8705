"""The data files of the ``alfworld`` wheel: domain, grammar, scene layouts, affordance tables and goals.

They are read as files, because ``import alfworld`` creates a folder in the user's home and imports textworld. Each
function raises ``Missing`` if the wheel is not installed.
"""

from __future__ import annotations

import json
import runpy
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bepo.core.errors import Missing

INSTALL = "pip install --no-deps 'alfworld==0.4.2'"


@cache
def folder() -> Path:
    """Return the folder of the installed package."""
    spec = find_spec("alfworld")
    if spec is None or not spec.submodule_search_locations:
        raise Missing("the data files of the alfworld wheel are not installed", INSTALL)
    return Path(spec.submodule_search_locations[0])


@cache
def domain() -> str:
    """Return ALFRED's PDDL domain."""
    return (folder() / "data" / "alfred.pddl").read_text(encoding="utf-8")


@cache
def grammar() -> str:
    """Return the templates of commands and feedback, with UNKNOWN GOAL in place of the task sentence."""
    return (folder() / "data" / "alfred.twl2").read_text(encoding="utf-8")


@cache
def constants() -> dict[str, Any]:
    """Return the tables of object types, receptacles, affordances and scenes, and of the scene types of each task."""
    return runpy.run_path(str(folder() / "gen" / "constants.py"))


@cache
def goals() -> dict[str, dict[str, Any]]:
    """Return each task type's ``pddl`` goal (with {obj}, {recep}, {toggle}) and two sentence ``templates``."""
    return runpy.run_path(str(folder() / "gen" / "goal_library.py"))["gdict"]


@cache
def scene(number: int) -> tuple[list[str], list[str]]:
    """Return ``(object types, ids of receptacles with coordinates)`` of a floor plan, both sorted."""
    path = folder() / "gen" / "layouts"
    types = json.loads((path / f"FloorPlan{number}-objects.json").read_text(encoding="utf-8"))
    placed = json.loads((path / f"FloorPlan{number}-openable.json").read_text(encoding="utf-8"))
    return sorted(set(types)), sorted(placed)
