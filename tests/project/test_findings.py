"""Intervals that are written by hand are those of docs/results.md, which is generated from the runs."""

import re

import pytest

from bepo.core.places import ROOT

WRITTEN = re.compile(r"[(|\[] ?(-?\d[\d.]*)(?: to |, )(-?\d[\d.]*)(?= ?[],)|])")
TABLED = re.compile(r"\[(-?[\d.]+), (-?[\d.]+)\]")


def turned(interval):
    """The interval of the opposite difference: "2.2 behind (0.4 to 3.9)" is -2.2 [-3.9, -0.4] in a table."""
    low, high = ((x.removeprefix("-") if x[0] == "-" or not float(x) else f"-{x}") for x in interval)
    return high, low


@pytest.mark.parametrize(
    "file, start",
    [("README.md", "## Results so far"), ("docs/findings.md", "# "), ("docs/losses.md", "## What the losses do")],
)
def test_intervals_in_text_are_those_of_the_tables(file, start):
    tables = set(TABLED.findall((ROOT / "docs/results.md").read_text(encoding="utf-8")))
    text = (ROOT / file).read_text(encoding="utf-8")
    found = WRITTEN.findall(text[text.index(start) :])
    assert len(found) >= 5
    assert [own for own in found if own not in tables and turned(own) not in tables] == []
