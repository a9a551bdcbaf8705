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
    [
        ("README.md", "## Results so far"),
        ("docs/findings.md", "# "),
        ("paper/readings.yaml", "blocks-claims"),
        ("docs/losses.md", "## What the losses do"),
    ],
)
def test_intervals_in_text_are_those_of_the_tables(file, start):
    results = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    tables = {tuple(float(number) for number in own) for own in TABLED.findall(results)}
    text = (ROOT / file).read_text(encoding="utf-8")
    found = WRITTEN.findall(text[text.index(start) :])
    assert len(found) >= 5
    assert [own for own in found if not told(*own) & tables] == []


PLACES = {"text Sokoban": "Sokoban"}
MEASURES = {"in training": "speed", "held-out": "level"}
SIDES = {
    "GAGPO (a reconstruction)": "GAGPOʳ",
    "GAGPO": "GAGPOʳ",
    "CRBC": "CRBCʳ",
    "a decay of 0": "Gated-BEPO gae_lambda=0.0",
    "Gated-BEPO's": "Gated-BEPO",
}
"""What the text calls the sides of a claim, by their names in the table."""


def claims_told(file):
    """Yield place, measure, claim and numbers of each row "A over B"; an empty first cell continues the one above."""
    where = ""
    for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 and " over " in cells[1]:
            where = cells[0] or where
            place, measure = where.split(", ")
            sides = (SIDES.get(side, side) for side in cells[1].split(" over "))
            low, high = cells[3].split(" to ")
            yield PLACES.get(place, place), MEASURES[measure], " > ".join(sides), f"{cells[2]} [{low}, {high}]"


def test_findings_tell_every_undecided_claim_and_the_readme_how_many_are_decided():
    """The README shows all of them as a figure."""
    results = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    table = results[results.index("| Environment | Measure | Claim |") :].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    undecided = {(*row[:3], row[5]) for row in rows if row[7] == "undecided"}
    assert set(claims_told("docs/findings.md")) == undecided
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    counts = [f"[declared {len(rows)} claims]", f"decided, it holds ({len(rows) - len(undecided)})"]
    assert [text for text in (*counts, f"undecided ({len(undecided)})", "None is reversed") if text not in readme] == []
    assert all(row[7].startswith(("holds", "undecided")) for row in rows)
