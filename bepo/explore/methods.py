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
    by_settings: dict[str, Plain] = {}
    for number in range(len(runs)):
        settings = {name: str(value) for name, value in different[str(number)].items() if not _is_seed(name)}
        by_settings.setdefault(repr(settings), {"settings": settings, "runs": []})["runs"].append(number)
    several = len({run.config["env"]["name"] for run in runs}) > 1
    every = list(by_settings.values())
    for method in every:
        credit = runs[method["runs"][0]].config["credit"]
        method |= {"credit": credit["name"], "label": label_of(credit)}
    for number, method in enumerate(every):
        env = runs[method["runs"][0]].config["env"]["name"]
        alike = [m for m in every if (m["label"], _env(m, runs)) == (method["label"], env)]
        words = [method["label"], *([f"on {env}"] if several else []), *_told(method, alike)]
        method |= {"name": " ".join(words), "colour": page_colour(method["credit"])}
        method["twin"] = sum(other["credit"] == method["credit"] for other in every[:number])
    for method in every:
        method["settings"] = {name: value for name, value in method["settings"].items() if name not in _NAMED}
    return every


def _env(method: Plain, runs: Sequence[StoredRun]) -> str:
    return runs[method["runs"][0]].config["env"]["name"]


def _told(method: Plain, alike: Sequence[Plain]) -> list[str]:
    """Return the settings of a method in which those of the same estimator and environment differ."""
    settings: dict[str, str] = method["settings"]
    differ = [name for name in settings if len({other["settings"][name] for other in alike}) > 1]
    return [f"{name.removeprefix('credit.')}={settings[name]}" for name in differ if settings[name] != "None"]


def _is_seed(name: str) -> bool:
    return name.rpartition(".")[2] == "seed"
