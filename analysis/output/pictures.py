"""Write a picture as PDF, PNG and SVG."""

import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from analysis.plots.hover import to_svg
from analysis.plots.style import GREY

_LEFT_OUT = re.compile(
    r"""<metadata>.*?</metadata>     # matplotlib's name and the title again
    |\ font-family:\ [^;"]*;?        # the page has its own font
    |\ transform="rotate\(-?0\ [^)]*\)"
    |\ xmlns:xlink="[^"]*"
    |(?<=\ )xlink:(?=href)
    |\ r="3"                         # page.html sets the radius of marks
    """,
    re.VERBOSE | re.DOTALL,
)

# Without dates and versions the same runs give the same bytes.
_METADATA = {"pdf": {"CreationDate": None}, "png": {"Software": None}}
_MARGIN = 0.1  # inches below a picture, for the text in its corner


def write_picture(picture: Figure, path: Path, corner: str) -> str:
    """Write a picture as PDF, PNG and SVG, and return the SVG for the page, which has its own font.

    ``path`` has no suffix; ``corner`` is the text in the corner below the picture. The SVG is written last. If the one
    that is there is equal (it names matplotlib's version), the others stay.
    """
    _sign(picture, corner)
    _settle(picture)
    svg = to_svg(picture, path.name)
    files = {kind: Path(f"{path}.{kind}") for kind in (*_METADATA, "svg")}
    if not all(file.exists() for file in files.values()) or files["svg"].read_bytes() != svg.encode():
        files["svg"].unlink(missing_ok=True)
        for kind, metadata in _METADATA.items():
            picture.savefig(files[kind], format=kind, dpi=200, metadata=metadata | {"Title": path.name})
        files["svg"].write_text(svg, encoding="utf-8")
    return slim(svg)


def _settle(picture: Figure) -> None:
    """Fix the layout and round it: the solver's last bits differ between processes, the files must not."""
    picture.draw_without_rendering()
    picture.set_layout_engine(None)  # "none" would repeat the layout for every file
    for axis in picture.axes:
        axis.set_position(Bbox.from_bounds(*np.round(axis.get_position().bounds, 6)))


def _sign(picture: Figure, text: str) -> None:
    """Write a text into the corner below a picture, and reserve space for it."""
    if engine := picture.get_layout_engine():
        share = _MARGIN / picture.get_figheight()
        engine.set(rect=(0, share, 1, 1 - share))  # pyright: ignore[reportCallIssue] (of constrained layout)
    picture.text(0.998, 0.002, text, ha="right", va="bottom", fontsize=5, color=GREY)


def slim(svg: str) -> str:
    """Return an SVG without fonts, empty groups and line breaks, its coordinates with one decimal."""
    svg = _without_bare_groups(_LEFT_OUT.sub("", svg))
    svg = re.sub(r'\b([xy])="([-\d.]+)"', lambda match: f'{match[1]}="{_tenths(_in_tenths(match[2]))}"', svg)
    svg = re.sub(r'\bd="([^"]*)"', lambda match: f'd="{_path(match[1])}"', svg)
    return re.sub(r"(?<=>)\s+(?=<)", "", svg)


def _without_bare_groups(svg: str) -> str:
    """Return an SVG without groups that have no attribute."""
    kept: list[bool] = []

    def keep(tag: re.Match[str]) -> str:
        if tag[0] == "</g>":
            return tag[0] * kept.pop()
        kept.append(tag[0] != "<g>")
        return tag[0] * kept[-1]

    return re.sub(r"<g\b[^>]*>|</g>", keep, svg)


def _path(data: str) -> str:
    """Return path data with each line relative to the point before it, which takes fewer digits."""
    short, at = [], [0, 0]
    for command, numbers in re.findall(r"([A-Za-z])([^A-Za-z]*)", data):
        places = [_in_tenths(number) for number in numbers.split()]
        if command == "L":
            short.append("l" + " ".join(_tenths(new - old) for new, old in zip(places, at, strict=True)))
        else:
            short.append(command + " ".join(map(_tenths, places)))
        at = places[-2:] or at
    return "".join(short)


def _in_tenths(number: str) -> int:
    return round(10 * float(number))


def _tenths(number: int) -> str:
    return f"{number / 10:g}"
