"""Where the files beside the code are: presets, studies, and the paper's data.

A checkout has them at its top. A wheel has copies inside of the package (``pyproject.toml`` maps them there).
"""

import os
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_CHECKOUT = _PACKAGE.parent
ROOT = _CHECKOUT if (_CHECKOUT / "conf" / "train.yaml").exists() else _PACKAGE / "_data"
"""The folder of the files that come with bepo."""
CONF = ROOT / "conf"
EXPERIMENTS = ROOT / "experiments"
PAPER = ROOT / "paper"


def cache_folder(name: str) -> Path:
    """Return the folder of a cache of this machine: ``$BEPO_CACHE/<name>`` (default: ``~/.cache/bepo/<name>``)."""
    return Path(os.environ.get("BEPO_CACHE") or os.path.expanduser("~/.cache/bepo")) / name
