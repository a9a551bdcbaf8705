"""``python -m analysis.output.notebook_pages RESULTS [NAME ...]``: the notebooks as pages that open from disk.

A page shows what its notebook shows when it opens, without controls and without network. ``marimo export html`` makes
pages whose scripts come from a server on the internet.
"""

import runpy
import sys
import time
from base64 import b64encode
from html import escape
from io import BytesIO
from pathlib import Path

import marimo
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from bepo.core.errors import exit_code, path_of, unknown_choice
from bepo.store.find import views

NOTEBOOKS = {path.stem: path for path in sorted((Path(__file__).parents[1] / "notebooks").glob("*.py"))}
_ROWS = 30  # of a table
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 0 auto; padding: 1rem; }}
section {{ overflow-x: auto; }}
img {{ max-width: 100%; background: #fff; border-radius: .25rem; }}
table {{ border-collapse: collapse; font-size: .85rem; }}
th, td {{ border: 1px solid #8884; padding: .2rem .5rem; text-align: left; }}
td {{ max-width: 16rem; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }}
.paragraph {{ display: block; margin: .5rem 0; }}
</style></head><body>
<p><small>What the notebook shows when it opens. Choose other runs with
<code>marimo edit analysis/notebooks/{name}.py -- --results {results}</code></small></p>
{body}
</body></html>
"""


def page_of(name: str, results: Path) -> str:
    """Return the page of a notebook. Raises ``UserError`` for an unknown name."""
    if name not in NOTEBOOKS:
        raise unknown_choice("notebook", name, NOTEBOOKS)
    # marimo asks objects for this; its kernel, which is not running here, needs it for no figure.
    Figure._display_ = _picture  # pyright: ignore[reportAttributeAccessIssue]
    pd.DataFrame._display_ = _table  # pyright: ignore[reportAttributeAccessIssue]
    sys.argv = [str(NOTEBOOKS[name]), "--results", str(results)]
    try:
        outputs, _ = runpy.run_path(str(NOTEBOOKS[name]))["app"].run()
        shown = [marimo.as_html(output).text for output in outputs if output is not None]
    finally:
        plt.close("all")
    body = "\n".join(f"<section>{text}</section>" for text in shown)
    return _PAGE.format(title=f"bepo: {name}", name=name, results=escape(str(results)), body=body)


def _picture(figure: Figure) -> marimo.Html:
    file = BytesIO()
    figure.savefig(file, format="png", dpi=150)
    return marimo.Html(f'<img alt="" src="data:image/png;base64,{b64encode(file.getvalue()).decode()}">')


def _table(frame: pd.DataFrame) -> marimo.Html:
    """Return a table that needs no script: marimo's own stays empty without it."""
    index, form = not isinstance(frame.index, pd.RangeIndex), "{:.4g}".format
    shown = frame.head(_ROWS).to_html(index=index, border=0, na_rep="–", float_format=form)
    left_out = f"<p><small>The first {_ROWS} of {len(frame)} rows.</small></p>" if len(frame) > _ROWS else ""
    return marimo.Html(shown + left_out)


def main(results: Path, names: list[str]) -> None:
    """Write ``RESULTS/views/notebook-<name>.html`` of each notebook, or of those that are named."""
    out = views(results)
    out.mkdir(parents=True, exist_ok=True)
    for name in names or NOTEBOOKS:
        begin, page = time.monotonic(), out / f"notebook-{name}.html"
        page.write_text(page_of(name, results), encoding="utf-8")
        print(f"{page} ({time.monotonic() - begin:.0f} s)")


if __name__ == "__main__":
    _RESULTS, *_NAMES = sys.argv[1:] or ["results"]
    sys.exit(exit_code(lambda: main(path_of(_RESULTS), _NAMES)))
