"""What the paper claims: the list in ``paper/claims.yaml``, read and checked."""

import operator
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import yaml

from analysis.claims.expression import Expression, ExpressionError
from analysis.data.reported import PAPER, EntryKey
from bepo.core.errors import UserError

CLAIMS = PAPER / "claims.yaml"
_FIELDS, _OPTIONAL = {"id", "claim", "at", "entries", "quantity", "relation"}, {"stated", "note"}
_RELATIONS = {">": operator.gt, "<": operator.lt, "=": operator.eq}


@dataclass(frozen=True)
class Relation:
    """A sign and a bound: ``> 0``."""

    sign: str
    bound: float

    def holds(self, low: float, high: float) -> bool | None:
        """Does it hold for every value from ``low`` to ``high``? None if for some only."""
        ends = [_RELATIONS[self.sign](x, self.bound) for x in (low, high)]
        return ends[0] if ends[0] == ends[1] else None


@dataclass(frozen=True)
class Claim:
    """One claim of ``claims.yaml``; ``stated`` is the size that the text gives the first quantity."""

    id: str
    claim: str
    at: str
    entries: Mapping[str, EntryKey]
    quantities: tuple[Expression, ...]
    relation: Relation
    stated: Expression | None = None
    note: str = ""

    @property
    def printed_only(self) -> bool:
        """Does it compare two printings of one quantity? No run decides that."""
        return self.relation.sign == "="


def read(path: Path = CLAIMS, known: Collection[EntryKey] | None = None) -> list[Claim]:
    """Return all claims. Raises ``UserError`` for unknown fields, names and entries (``known`` are those there are)."""
    try:
        items = yaml.safe_load(path.read_text()) or []
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not YAML ({str(error).splitlines()[0]})") from None
    claims: dict[str, Claim] = {}
    for item in items:
        try:
            claim = _claim(item, known)
        except (UserError, ExpressionError) as error:
            name = item.get("id", item) if isinstance(item, dict) else item
            raise UserError(f"{path}: claim {name!r}: {error}") from None
        if claim.id in claims:
            raise UserError(f"{path}: two claims are called {claim.id!r}")
        claims[claim.id] = claim
    return list(claims.values())


def _claim(item: dict, known: Collection[EntryKey] | None) -> Claim:
    if not isinstance(item, dict) or set(item) - _FIELDS - _OPTIONAL or _FIELDS - set(item):
        raise UserError(f"its fields are {', '.join(sorted(_FIELDS))}, and perhaps {', '.join(sorted(_OPTIONAL))}")
    if not isinstance(item["entries"], dict):
        raise UserError("entries must be names with `label | row | group | column` each")
    entries, stated = {name: _key(text) for name, text in item["entries"].items()}, item.get("stated")
    if isinstance(stated, str) and "|" in stated:
        entries["stated"], stated = _key(stated), "stated"
    for name, key in entries.items():
        if known is not None and key not in known:
            asked, *names = (" | ".join(k) for k in (key, *sorted(known)))
            nearest = get_close_matches(asked, names, n=1, cutoff=0)[0]
            raise UserError(f"{name} names no entry: {asked!r}; nearest: {nearest}")
    quantities = item["quantity"] if isinstance(item["quantity"], list) else [item["quantity"]]
    expressions = tuple(map(Expression, quantities))
    size = None if stated is None else Expression(stated)
    unknown = {name for e in (*expressions, size) if e for name in e.names - set(entries)}
    if unknown:
        raise UserError(f"{min(unknown)!r} is not among its entries: {', '.join(entries)}")
    sign, _, bound = str(item["relation"]).partition(" ")
    try:
        relation = Relation(_RELATIONS[sign] and sign, float(bound))
    except (KeyError, ValueError):
        raise UserError(f"relation {item['relation']!r} is not one of > < = and a number, like '> 0'") from None
    note = item.get("note", "")
    return Claim(item["id"], item["claim"], item["at"], entries, expressions, relation, size, note)


def _key(text: str) -> EntryKey:
    parts = tuple(part.strip() for part in str(text).split("|"))
    if len(parts) != 4:
        raise UserError(f"{text!r} is not `label | row | group | column`")
    return parts
