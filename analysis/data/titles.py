"""What artefacts are called: the paper's own numbers and readable headings, from ``paper/artefacts.yaml``."""

from functools import cache

import yaml

from analysis.data.reported import PAPER

FILE = PAPER / "artefacts.yaml"
_KINDS = {"tables": "Table", "figures": "Figure"}


def number_of(label: str) -> str:
    """Return ``Table 2`` for what the paper numbers so; empty for what it does not have."""
    return _names().get(label, ("", ""))[0]


def title_of(label: str) -> str:
    """Return ``Table 2: Main results on ALFWorld and WebShop``; the label of an artefact that has no heading."""
    return ": ".join(filter(None, _names().get(label, ("", label))))


@cache
def _names() -> dict[str, tuple[str, str]]:
    """Return number and heading of each label."""
    file = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    paper = {
        label: (f"{_KINDS[part]} {number}", heading)
        for part in _KINDS
        for number, (label, heading) in enumerate(file[part].items(), start=1)
    }
    return paper | {label: ("", heading) for label, heading in file["added"].items()}
