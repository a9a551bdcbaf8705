"""``python -m tests.screens RESULTS [OUT]``: pictures of every page of a results folder in a real browser.

Writes the table of runs, the page of the first run, a comparison of the first two and, where there is one, the report,
each at 1200 and 400 pixels, light and dark.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

from bepo import view
from tests.browser import Browser

_READY = (
    "document.readyState === 'complete' && (!document.getElementById('index') || document.body?.dataset.ready)"
    "&& (!document.querySelector('.item') || document.querySelector('.graph'))"
)
_DRAW_ALL = "for (const item of document.querySelectorAll('.item')) item.style.contentVisibility = 'visible'; 0"
"""A list draws what is looked at only, and the picture is of the whole page."""


def main(results: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    ids = sorted(path.parent.name for path in results.glob("runs/*/run.json"))
    pages = {"runs": [], "run": ids[:1]} | ({"compare": ["--compare", *ids[:2]]} if len(ids) > 1 else {})
    files = {name: out / f"{name}.html" for name in pages}
    for name, arguments in pages.items():
        view.main([*arguments, "--results", str(results), "--out", str(files[name]), "--no-open"])
    if (report := Path("paper/report.html")).exists():
        files["report"] = report
    for width, dark in product((1200, 400), (False, True)):
        with Browser(width, 900, dark) as browser:
            for name, file in files.items():
                browser.open(file.resolve().as_uri(), _READY)
                browser.evaluate(_DRAW_ALL)
                path = out / f"{name}-{width}-{'dark' if dark else 'light'}.png"
                browser.screenshot(path)
                print(path, *browser.problems)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "screens"))
