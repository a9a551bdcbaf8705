"""The viewer's page: one HTML file that opens from disk, loads nothing, and unpacks an episode when it is looked at."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

_FOLDER = Path(__file__).parent
_SCRIPTS = {
    "page": ("dom", "methods", "diagnosis", "overview", "list", "strips", "graph", "episode", "compare", "start"),
    "runs": ("dom", "runs"),
}


def render(title: str, index: dict[str, Any], chunks: Sequence[dict[str, Any]] = (), template: str = "page") -> str:
    """Return a page. ``index`` is what it shows at once, ``chunks`` are the groups of episodes.

    ``template`` is ``page``, with the episodes of runs, or ``runs``, the table of all runs.
    """
    environment = Environment(loader=FileSystemLoader(_FOLDER), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    script = "\n".join((_FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS[template])
    return environment.get_template(f"{template}.html").render(
        title=title,
        compared="compare" in index,
        diagnosed="diagnosis" in index,
        style=Markup((_FOLDER / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        index=_packed(index),
        chunks=map(_packed, chunks),
    )


def _packed(value: dict[str, Any]) -> str:
    """Return a value as JSON, compressed, in base64: nothing of a run's texts can end a script element."""
    data = json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    return base64.b64encode(gzip.compress(data, mtime=0)).decode()
