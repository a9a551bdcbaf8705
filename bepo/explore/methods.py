"""Runs that differ in nothing but seeds, as methods: what the page of a study shows first."""

from __future__ import annotations

from collections.abc import Sequence

from bepo.explore.colours import page_colour
from bepo.explore.frames import differing
from bepo.explore.groups import Plain
from bepo.explore.names import label_of
from bepo.store.run_files import StoredRun

_NAMED = ("credit.name", "env.name")


def methods(runs: Sequence[StoredRun]) -> list[Plain]:
    """Return the methods of some runs in the order of their first run.

    Each has ``name``, ``colour``, ``twin`` (how many methods above it have its estimator), ``settings`` (in which it
    differs from others) and ``runs``, the indices of its runs. A name has the settings in which methods of one
    label and environment differ.
    """
    different = differing({str(number): run.config for number, run in enumerate(runs)})
    found: dict[str, Plain] = {}
    for number in range(len(runs)):
        own = {name: str(value) for name, value in different[str(number)].items() if not _is_seed(name)}
        found.setdefault(repr(own), {"settings": own, "runs": []})["runs"].append(number)
    several = len({run.config["env"]["name"] for run in runs}) > 1
    every = list(found.values())
    for one in every:
        credit = runs[one["runs"][0]].config["credit"]
        one |= {"credit": credit["name"], "label": label_of(credit)}
    for number, one in enumerate(every):
        env = runs[one["runs"][0]].config["env"]["name"]
        alike = [m for m in every if (m["label"], _env(m, runs)) == (one["label"], env)]
        words = [one["label"], *([f"on {env}"] if several else []), *_told(one, alike)]
        one |= {"name": " ".join(words), "colour": page_colour(one["credit"])}
        one["twin"] = sum(other["credit"] == one["credit"] for other in every[:number])
    for one in every:
        one["settings"] = {name: value for name, value in one["settings"].items() if name not in _NAMED}
    return every


def _env(method: Plain, runs: Sequence[StoredRun]) -> str:
    return runs[method["runs"][0]].config["env"]["name"]


def _told(method: Plain, alike: Sequence[Plain]) -> list[str]:
    """Return the settings of a method in which those of the same estimator and environment differ."""
    own: dict[str, str] = method["settings"]
    differ = [name for name in own if len({other["settings"][name] for other in alike}) > 1]
    return [f"{name.removeprefix('credit.')}={own[name]}" for name in differ if own[name] != "None"]


def _is_seed(name: str) -> bool:
    return name.rpartition(".")[2] == "seed"
