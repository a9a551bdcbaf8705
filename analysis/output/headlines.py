"""``python -m analysis headlines``: five declared claims with their numbers, and the page."""

from collections.abc import Sequence

from analysis.data.cache import cached, digest_of
from analysis.data.sources import Source
from analysis.grid.artefact import artefacts
from analysis.grid.table import Table

CLAIMS = (
    "sokoban speed: gated_bepo > grpo",
    "sokoban speed: shrunk_bepo > gated_bepo",
    "sokoban level: gated_bepo > grpo",
    "alfworld speed: gated_bepo > grpo",
    "webshop speed: ppo > gated_bepo",
)
"""Claims of ``paper/blocks.yaml``: the method against the baseline on each environment, and our own estimator."""
COLUMNS = ("environment", "measure", "claim", "difference", "verdict")


def headlines(source: Source, tiers: Sequence[str], allow_mixed: bool = False) -> list[list[str]]:
    """Return the columns ``COLUMNS`` of each claim: the difference is in points of success, with its 95 % interval.

    They are those of the highest tier at which blocks were trained. They are kept until the runs change.
    """
    key = ("headlines", digest_of(source), list(tiers), allow_mixed)
    return cached(lambda: _headlines(source, tiers, allow_mixed), source, *key)


def _headlines(source: Source, tiers: Sequence[str], allow_mixed: bool) -> list[list[str]]:
    from analysis.claims.looks import read_plan

    item = artefacts("table")["blocks-claims"]
    _, table = item.make(source, source.main_tier(tiers), allow_mixed)
    assert isinstance(table, Table)  # blocks-claims is one
    rows = {claim.id: row for claim, row in zip(read_plan().claims, table.rows, strict=True)}
    columns = [[*map(str.lower, table.names)].index(name) for name in COLUMNS]
    return [[rows[claim][column].text for column in columns] for claim in CLAIMS]
