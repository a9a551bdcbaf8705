"""``python -m analysis explain claims/NAME``: the formula, tests and verdict of a claim."""

from collections.abc import Sequence

from analysis.data.cache import cached, digest_of
from analysis.data.sources import Source
from bepo.core.errors import unknown_choice


def explain_claim(name: str, source: Source, tiers: Sequence[str], allow_mixed: bool = False) -> list[str]:
    """Return the lines of the explanation, at the last tier whose runs test the claim, else at the last tier.

    Raises ``UserError`` with the choices for an unknown claim, before claims are tested.
    """
    told = []
    for tier in reversed(tiers):
        every = explanations(source, tier, allow_mixed, name)
        if name not in every:
            raise unknown_choice("claim", name, every)
        told.append(every[name])
        if told[-1][0]:
            break
    return told[-1][1] if told[-1][0] else told[0][1]


def explanations(
    source: Source, tier: str, allow_mixed: bool = False, asked: str = ""
) -> dict[str, tuple[bool, list[str]]]:
    """Return for every claim whether the runs of a tier test it, and the lines of its explanation.

    They are kept until the runs change; an analysis of everything makes them. Raises ``UserError`` if they have to be
    made and no claim has the name ``asked``.
    """
    key = ("claims", digest_of(source), tier, allow_mixed)
    return cached(lambda: _explained(source, tier, allow_mixed, asked), source, *key)


def _explained(source: Source, tier: str, allow_mixed: bool, asked: str) -> dict[str, tuple[bool, list[str]]]:
    from analysis.claims.claims import read
    from analysis.claims.entries import Entries
    from analysis.grid.artefact import artefacts
    from analysis.output.claim_lines import lines_of

    if asked and asked not in (known := [claim.id for claim in read()]):
        raise unknown_choice("claim", asked, known)
    entries = artefacts("table")["claims"].load(source, tier, allow_mixed)
    assert isinstance(entries, Entries)
    return {e.claim.id: (e.runs.tested is not None, lines_of(e, entries, tier)) for e in entries.evaluated}
