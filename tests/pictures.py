"""``python -m tests.pictures [RUN]``: the pictures of README.md and docs/.

The curves are the artefact of their name, from the published runs. The viewer's page is made anew for a run that is
named and kept its rollouts, as published runs of seed 0 did.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from analysis.__main__ import main as analysis
from bepo import view
from tests.browser import Browser

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
ARTEFACTS = ("declared-claims", "aggregate-curves", "blocks-forest-sokoban", "why")
_READY = "document.body?.dataset.ready && document.querySelector('.graph')"


def curves(out: Path = PICTURES) -> None:
    """Write the pictures of published runs."""
    with tempfile.TemporaryDirectory() as folder:
        analysis([*ARTEFACTS, "--tier", "laptop", "--source", "published", "--out", folder])
        for label in ARTEFACTS:
            shutil.copy(Path(folder) / "figures" / f"{label}.laptop.png", out)


def page(run: str, out: Path = PICTURES) -> None:
    """Write the viewer's page of a run as its window shows it."""
    with tempfile.TemporaryDirectory() as folder, Browser(1200, 1000) as browser:
        file = Path(folder) / "view.html"
        view.main([run, "--out", str(file), "--no-open"])
        browser.open(file.as_uri(), _READY)
        browser.screenshot(out / "view.png", whole=False)


if __name__ == "__main__":
    curves()
    for name in sys.argv[1:2]:
        page(name)
