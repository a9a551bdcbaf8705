"""Titles of artefacts and the pages of the report, from ``paper/artefacts.yaml``."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import yaml

from bepo.core.places import PAPER

FILE = PAPER / "artefacts.yaml"
_KINDS = {"tables": "Table", "figures": "Figure"}


def number_of(label: str) -> str:
    """Return the paper's number of an artefact, such as ``Table 2``; empty if it is not in the paper."""
    return _names().get(label, ("", ""))[0]


def title_of(label: str) -> str:
    """Return number and heading, such as ``Table 2: Main results``, or the label without a heading."""
    return ": ".join(filter(None, _names().get(label, ("", label))))


@dataclass(frozen=True)
class Page:
    """A page of the report: its name in links, its title, the question that it answers, and what it shows, in order."""

    name: str
    title: str
    question: str
    shows: Sequence[str]


@cache
def pages() -> tuple[Page, ...]:
    """Return the pages of the report."""
    return tuple(Page(name, **page) for name, page in _file()["pages"].items())


@cache
def _file() -> dict[str, dict]:
    return yaml.safe_load(FILE.read_text(encoding="utf-8"))


@cache
def _names() -> dict[str, tuple[str, str]]:
    """Return number and heading of each label."""
    file = _file()
    paper = {
        label: (f"{_KINDS[part]} {number}", heading)
        for part in _KINDS
        for number, (label, heading) in enumerate(file[part].items(), start=1)
    }
    return paper | {label: ("", heading) for label, heading in file["added"].items()}
