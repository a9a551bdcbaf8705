"""``python -m analysis headlines``: five declared claims with their numbers, and the page."""

from collections.abc import Iterable, Sequence

from analysis.data.cache import cached, digest_of
from analysis.data.sources import Source
from analysis.grid.artefact import artefacts
from analysis.grid.table import Table

CLAIMS = (
    "sokoban speed: gated_bepo > grpo",
    "sokoban speed: shrunk_bepo > gated_bepo",
    "sokoban level: gated_bepo > grpo",
    "alfworld speed: gated_bepo > grpo",
)
"""Claims of ``paper/blocks.yaml``: the method against the baseline, and our first estimator."""
TEST = "webshop-gated"
"""Of ``paper/next.yaml``, with a margin of 0: Batch-BEPO, our own, against the method."""
COLUMNS = ("environment", "measure", "claim", "difference", "verdict")


def headlines(source: Source, tiers: Sequence[str], allow_mixed: bool = False) -> list[list[str]]:
    """Return the columns ``COLUMNS`` of each claim: the difference is in points of success, with its 95 % interval.

    They are those of the highest tier at which blocks were trained. They are kept until the runs change.
    """
    key = ("headlines", digest_of(source), list(tiers), allow_mixed)
    return cached(lambda: _headlines(source, tiers, allow_mixed), source, *key)


def _headlines(source: Source, tiers: Sequence[str], allow_mixed: bool) -> list[list[str]]:
    from analysis.claims import new_blocks
    from analysis.claims.looks import read_plan

    def rows_of(label: str, names: Iterable[str]) -> dict[str, dict[str, str]]:
        _, table = artefacts("table")[label].make(source, source.main_tier(tiers), allow_mixed)
        assert isinstance(table, Table)  # both are
        heads = [*map(str.lower, table.names)]
        return {
            name: dict(zip(heads, (cell.text for cell in row))) for name, row in zip(names, table.rows, strict=True)
        }

    rows = rows_of("blocks-claims", (claim.id for claim in read_plan().claims))
    tests = rows_of("next-claims", (test.id for test in new_blocks.read_plan(new_blocks.NEXT)[0]))
    test = tests[TEST] | {"claim": f"Batch-BEPO > {tests[TEST]['against']}"}
    return [[row[column] for column in COLUMNS] for row in (*(rows[claim] for claim in CLAIMS), test)]
