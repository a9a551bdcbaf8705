"""Numbers with intervals that are written by hand are those of docs/results.md, which is generated from the runs."""

import re

import pytest

from bepo.core.places import ROOT

NUMBER = r"(-?\d[\d.]*)"
WRITTEN = re.compile(rf"{NUMBER}[^\d\[(]*[(|\[] ?{NUMBER}(?:\s+to\s+|,\s+){NUMBER}(?= ?[],)|])")
TABLED = re.compile(rf"{NUMBER} \[{NUMBER}, {NUMBER}\]")


def signed(mean, low, high):
    """The numbers with the sign of the mean left out: -2.2 [-3.9, -0.4] is told as "2.2 behind (0.4 to 3.9)"."""
    numbers = [float(x) for x in (mean, low, high)]
    return tuple(numbers) if numbers[0] >= 0 else tuple(-x for x in (numbers[0], *numbers[:0:-1]))


@pytest.mark.parametrize(
    "file, start",
    [("README.md", "## Results so far"), ("docs/findings.md", "# "), ("docs/losses.md", "## What the losses do")],
)
def test_intervals_in_text_are_those_of_the_tables(file, start):
    tables = {signed(*own) for own in TABLED.findall((ROOT / "docs/results.md").read_text(encoding="utf-8"))}
    text = (ROOT / file).read_text(encoding="utf-8")
    found = WRITTEN.findall(text[text.index(start) :])
    assert len(found) >= 5
    assert [own for own in found if signed(*own) not in tables] == []
