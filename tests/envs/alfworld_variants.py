"""Adds features of original games to generated games, to test that an engine interprets them."""

from __future__ import annotations

import re
from random import Random


def original_like(game_file: dict, rng: Random) -> dict:
    """Return a game file with several such features.

    These are receptacles that share a location, objects that are in no receptacle, entities without facts, the verbs of
    older games, and objects that are open, hot, cold, clean or sliced from the start.
    """
    problem, grammar, domain = game_file["pddl_problem"], game_file["grammar"], game_file["pddl_domain"]
    problem = _shared_locations(problem, rng)
    problem = _scenery(problem, rng)
    problem = _some_states(problem, rng)
    if rng.random() < 0.5:
        grammar = grammar.replace('"move {o} to {r}"', '"put {o} in/on {r}"')
        grammar = grammar.replace("You move the {o.name} to the {r.name}.", "You put the {o.name} in/on the {r.name}.")
    if rng.random() < 0.5:  # a domain in which visible objects can be examined
        domain = domain.replace("(?l - location, ?r - receptacle)", "(?l - location ?r - receptacle)")
    return game_file | {"pddl_problem": problem, "grammar": grammar, "pddl_domain": domain}


def _shared_locations(problem: str, rng: Random) -> str:
    """Move about a third of the receptacles to another one's location."""
    places = sorted(set(re.findall(r"receptacleAtLocation \S+ (loc_bar_\d+)\)", problem)))
    for place in places[1:]:
        if rng.random() < 0.35:
            other = rng.choice(places)
            problem = re.sub(rf"(receptacleAtLocation \S+ ){place}\)", rf"\g<1>{other})", problem)
            problem = re.sub(rf"(objectAtLocation \S+ ){place}\)", rf"\g<1>{other})", problem)
    return problem


def _scenery(problem: str, rng: Random) -> str:
    """Add objects that are in no receptacle, and an object that no fact mentions."""
    scenery = [f"{kind}_bar__plus_0{n}_dot_11" for n, kind in enumerate(("window", "curtains", "lightswitch", "chair"))]
    places = re.findall(r"(loc_bar_\d+) - location", problem)
    declared = "".join(f"{t} - object\n        " for t in scenery) + "Apple - object WindowType - otype\n        "
    facts = "".join(f"(objectAtLocation {t} {rng.choice(places)}) (objectType {t} WindowType)\n" for t in scenery)
    problem = problem.replace("agent1 - agent\n        ", f"agent1 - agent\n        {declared}", 1)
    return problem.replace("(atLocation agent1", f"{facts}(atLocation agent1", 1)


def _some_states(problem: str, rng: Random) -> str:
    """Open some receptacles, and heat, cool, clean or slice some objects."""
    states = [f"(opened {r})" for r in re.findall(r"\(openable (\S+)\)", problem) if rng.random() < 0.3]
    done = {"heatable": "isHot", "coolable": "isCool", "cleanable": "isClean", "sliceable": "isSliced"}
    for able, state in done.items():
        states += [f"({state} {o})" for o in re.findall(rf"\({able} ([^\s?)]+)\)", problem) if rng.random() < 0.15]
    return problem.replace("(atLocation agent1", "\n        ".join([*states, "(atLocation agent1"]), 1)
