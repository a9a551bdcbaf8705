"""Numbers with intervals that are written by hand are those of docs/results.md, which is generated from the runs."""

import re

import pytest

from bepo.core.places import ROOT

NUMBER = r"(-?\d[\d.]*)"
WRITTEN = re.compile(rf"{NUMBER}([^\d\[(]*)[(|\[] ?{NUMBER}(?:\s+to\s+|,\s+){NUMBER}(?= ?[],)|])")
TABLED = re.compile(rf"{NUMBER} \[{NUMBER}, {NUMBER}\]")


def negative(mean, low, high):
    return -mean, -high, -low


def told(mean, words, low, high):
    """The rows of a table that this may tell. "2.2 behind (0.4 to 3.9)" tells -2.2 [-3.9, -0.4].

    Without "ahead" or "behind" the sign is free.
    """
    own = float(mean), float(low), float(high)
    if re.search(r"\bahead\b", words):
        return {own}
    return {negative(*own)} if re.search(r"\bbehind\b", words) else {own, negative(*own)}


@pytest.mark.parametrize(
    "file, start",
    [("README.md", "## Results so far"), ("docs/findings.md", "# "), ("docs/losses.md", "## What the losses do")],
)
def test_intervals_in_text_are_those_of_the_tables(file, start):
    results = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    tables = {tuple(float(number) for number in own) for own in TABLED.findall(results)}
    text = (ROOT / file).read_text(encoding="utf-8")
    found = WRITTEN.findall(text[text.index(start) :])
    assert len(found) >= 5
    assert [own for own in found if not told(*own) & tables] == []
