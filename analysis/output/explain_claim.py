"""``python -m analysis explain claims/NAME``: the formula, tests and verdict of a claim."""

from collections.abc import Sequence

from analysis.data.sources import Source
from analysis.output import remembered
from bepo.core.errors import choose


def explain_claim(name: str, source: Source, tiers: Sequence[str], allow_mixed: bool = False) -> list[str]:
    """Return the lines of the explanation, at the last tier whose runs test the claim, else at the last tier.

    The explanations of a tier are kept until its runs change. Raises ``UserError`` with the choices for an unknown
    claim.
    """
    found = []
    for tier in reversed(tiers):
        every = explanations(name, source, tier, allow_mixed)
        if name not in every:
            raise choose("claim", name, every)
        found.append(every[name])
        if found[-1][0]:
            break
    return found[-1][1] if found[-1][0] else found[0][1]


def explanations(asked: str, source: Source, tier: str, allow_mixed: bool = False) -> dict[str, tuple[bool, list[str]]]:
    """Return for every claim whether the runs of a tier test it, and the lines of its explanation.

    Raises ``UserError`` if no claim has the name ``asked``, before claims are tested.
    """
    key = ("claims", remembered.digest_of(source), tier, allow_mixed)
    return remembered.kept(lambda: _explained(asked, source, tier, allow_mixed), *key)


def _explained(asked: str, source: Source, tier: str, allow_mixed: bool) -> dict[str, tuple[bool, list[str]]]:
    from analysis.claims.claims import read
    from analysis.claims.entries import Entries
    from analysis.grid.artefact import artefacts
    from analysis.output.claim_lines import lines_of

    if asked not in (known := [claim.id for claim in read()]):
        raise choose("claim", asked, known)
    entries = artefacts("table")["claims"].load(source, tier, allow_mixed)
    assert isinstance(entries, Entries)
    return {e.claim.id: (e.runs.tested is not None, lines_of(e, entries, tier)) for e in entries.evaluated}
