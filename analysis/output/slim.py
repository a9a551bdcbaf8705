"""Shorten SVGs, because the page has many. What a reader sees stays the same to a tenth of a point."""

import re

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
