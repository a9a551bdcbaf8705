"""Pictures as SVG with tooltips: a mark with a ``<title>`` over each point and bar."""

import re
from collections.abc import Iterator, Sequence
from html import escape
from io import StringIO
from weakref import WeakKeyDictionary

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

_TEXTS: WeakKeyDictionary[Artist, Sequence[str]] = WeakKeyDictionary()
_MOST = 30  # marks per line; with more points only every second, third, ... gets one
_LINE = "line:"


def describe(line: Line2D, texts: Sequence[str]) -> None:
    """Set the tooltip of each point of a line."""
    _TEXTS[line] = texts


def belongs(artist: Artist, name: str) -> None:
    """Mark an artist as part of a row, such as a method, so that the page can fade the others."""
    artist.set_gid(_LINE + name)


def to_svg(figure: Figure, salt: str) -> str:
    """Return the picture as SVG for a page, with text as text and tooltips. ``salt`` makes IDs unique."""
    file = StringIO()
    with mpl.rc_context({"svg.hashsalt": salt, "svg.fonttype": "none"}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Title": salt})
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(rf'<g id="{_LINE}([^"]*)">', r'<g data-line="\1">', svg)
    svg = re.sub(r'<g id="[^"]*">', "<g>", svg)  # these IDs are the same in every picture
    svg = _numbered(svg, salt)
    marks = "\n".join(mark for axis in figure.axes if axis.get_visible() for mark in _marks(figure, axis))
    return svg.replace("</svg>", f'<g class="marks" fill-opacity="0">\n{marks}\n</g>\n</svg>')


def _numbered(svg: str, salt: str) -> str:
    """Number the IDs of reused parts: matplotlib hashes lengths, whose last bit can differ between layouts."""
    names = dict.fromkeys(re.findall(r'id="([a-z][0-9a-f]{10})"', svg))
    numbers = {name: f"{salt}-{number}" for number, name in enumerate(names)}
    return re.sub(r"\b[a-z][0-9a-f]{10}\b", lambda match: numbers.get(match[0], match[0]), svg)


def _marks(figure: Figure, axis: Axes) -> Iterator[str]:
    for line in axis.lines:
        yield from _of_line(figure, axis, line)
    for bars in (c for c in axis.containers if isinstance(c, BarContainer)):
        for bar in (patch for patch in bars.patches if isinstance(patch, Rectangle)):
            yield _of_bar(figure, axis, bar, str(bars.get_label()))


def _of_line(figure: Figure, axis: Axes, line: Line2D) -> Iterator[str]:
    label, texts = str(line.get_label()), _TEXTS.get(line)
    points = np.column_stack([np.asarray(line.get_xdata(), object), np.asarray(line.get_ydata(), object)])
    if texts is None and (label.startswith("_") or len(points) < 1):
        return
    drawn = np.column_stack([line.get_xdata(orig=False), line.get_ydata(orig=False)])
    places, row = _places(figure, line.get_transform().transform(drawn)), (line.get_gid() or "").removeprefix(_LINE)
    of = f' data-line="{escape(row)}"' if row else ""
    step = -(-len(points) // _MOST)
    for i in (i for i in range(len(points)) if (len(points) - 1 - i) % step == 0):
        x, y = points[i]
        text = texts[i] if texts else f"{label}, {_named(axis.get_xlabel(), x)}: {_short(y)}"
        if np.isfinite(places[i]).all():
            x, y = places[i]
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"{of}><title>{escape(text)}</title></circle>'


def _of_bar(figure: Figure, axis: Axes, bar: Rectangle, label: str) -> str:
    (left, low), (right, high) = _places(figure, bar.get_window_extent().get_points())
    across = bar.get_y() + bar.get_height() / 2
    names = [t.get_text().replace("\n", " ") for t in axis.get_yticklabels() if abs(t.get_position()[1] - across) < 0.5]
    words = [*names[:1], *([label] if not label.startswith("_") else [])]
    text = f"{', '.join(words)}: {_short(bar.get_width())}"
    size = f'width="{right - left:.1f}" height="{low - high:.1f}"'
    return f'<rect x="{left:.1f}" y="{high:.1f}" {size}><title>{escape(text)}</title></rect>'


def _places(figure: Figure, pixels: np.ndarray) -> np.ndarray:
    """Return positions in the coordinates of the SVG: points from the top left."""
    points = np.asarray(pixels, float) * 72 / figure.dpi
    return np.column_stack([points[:, 0], figure.get_figheight() * 72 - points[:, 1]])


def _named(axis: str, value: object) -> str:
    return f"{axis.lower()} {_short(value)}".strip()


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, int | float | np.number) else str(value)
