"""Read the paper's claims (``paper/claims.yaml``) and the checks of its consistency (``paper/checks.yaml``)."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from analysis.claims.expression import Expression, ExpressionError
from analysis.claims.formula import Formula, Relation, comparisons, conjunction, inequalities
from analysis.data.methods import known_environments
from analysis.data.reported import EntryKey, all_entries
from bepo.core.errors import UserError, unknown_choice
from bepo.core.places import CONF, EXPERIMENTS, PAPER

CLAIMS, CHECKS = PAPER / "claims.yaml", PAPER / "checks.yaml"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster, where PyYAML was built with libyaml
_FIELDS = {"id", "claim", "at", "entries", "holds"}
_OPTIONAL = {"claims": {"stated", "note", "about", "extension", "not_comparable"}, "checks": {"reason"}}


@dataclass(frozen=True)
class Claim:
    """One claim of the paper, or one check of its consistency.

    All ``comparisons`` must hold. ``stated`` has the size that the text gives each, or None. ``about`` is
    ``mechanism`` for cost, coverage, convergence and diagnostics, else ``learning``. ``extension`` marks a claim that
    we carried over to runs which the paper does not have. ``reason`` says why both sides of a check should be equal.
    ``not_comparable`` says, by tier, why its runs cannot answer.
    """

    id: str
    claim: str
    at: str
    entries: Mapping[str, EntryKey]
    comparisons: tuple[Relation, ...]
    stated: tuple[Expression | None, ...]
    note: str = ""
    about: str = "learning"
    extension: bool = False
    reason: str = ""
    not_comparable: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def formula(self) -> Formula:
        """The claim as inequalities."""
        return conjunction(self.comparisons)

    @property
    def family(self) -> str:
        """The name of the claims that are corrected together. Easy claims (cost, say) must not add power to others."""
        return f"{'carried over' if self.extension else 'of the paper'}, about {self.about}"

    @property
    def names(self) -> set[str]:
        """The names of the entries that it compares."""
        return {name for comparison in self.comparisons for name in comparison.difference.names}


def read(path: Path = CLAIMS, known: Collection[EntryKey] | None = None) -> list[Claim]:
    """Return all claims, or checks, of a file.

    Raises ``UserError`` for unknown fields, names and entries (``known`` has the existing entries). The groups of an
    extension's entries need not be known, because only its runs make them.
    """
    try:
        items = yaml.load(path.read_text(encoding="utf-8"), _LOADER) or []
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not YAML ({str(error).splitlines()[0]})") from None
    claims: dict[str, Claim] = {}
    for item in items:
        try:
            claim = _claim(item, known, "checks" if path.stem == "checks" else "claims")
        except (UserError, ExpressionError) as error:
            name = item.get("id", item) if isinstance(item, dict) else item
            raise UserError(f"{path}: claim {name!r}: {error}") from None
        if claim.id in claims:
            raise UserError(f"{path}: two claims are called {claim.id!r}")
        claims[claim.id] = claim
    return list(claims.values())


def _claim(item: Any, known: Collection[EntryKey] | None, kind: str) -> Claim:
    fields, optional = _FIELDS, _OPTIONAL[kind]
    if not isinstance(item, dict) or set(item) - fields - optional or fields - set(item):
        raise UserError(f"fields: required are {', '.join(sorted(fields))}; optional are {', '.join(sorted(optional))}")
    if not isinstance(item["entries"], dict):
        raise UserError("entries must be a mapping from names to `label | row | group | column`")
    entries = {name: _key(text) for name, text in item["entries"].items()}
    said = [None if text is None else str(text) for text in _list(item.get("stated", []))]
    entries |= {f"stated_{i}": _key(text) for i, text in enumerate(said) if text and "|" in text}
    said = [f"stated_{i}" if text and "|" in text else text for i, text in enumerate(said)]
    entries, lists = _without_wildcards(entries)
    _refuse_unknown(entries, known, bool(item.get("extension")))
    texts = [_listed(str(text), lists) for text in _list(item["holds"])]
    every = [comparison for text in texts for comparison in comparisons(text)]
    stated = [None if text is None else Expression.read(text) for text in said]
    if len(stated) > len(every):
        raise UserError(f"stated has {len(stated)} sizes, but there are only {len(every)} comparisons")
    if item.get("about", "mechanism") != "mechanism":
        raise UserError(f"about={item['about']!r}: must be mechanism, or be left out")
    unknown = {n for e in (*(c.difference for c in every), *filter(None, stated)) for n in e.names - set(entries)}
    if unknown:
        raise UserError(f"{min(unknown)!r} is not among its entries: {', '.join(entries)}")
    sizes = (*stated, *[None] * (len(every) - len(stated)))
    more = {name: item[name] for name in optional & set(item) if name != "stated"}
    claim = Claim(item["id"], item["claim"], item["at"], entries, tuple(every), sizes, **more)
    if any(comparison.sign == "=" for comparison in every) != (kind == "checks"):
        raise UserError("== belongs to paper/checks.yaml, whose checks have no other comparison")
    if kind == "claims" and not all(inequality.quantity.terms for inequality in inequalities(claim.formula)):
        raise UserError("every comparison must contain an entry")
    return claim


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _key(text: str) -> EntryKey:
    parts = tuple(part.strip() for part in str(text).split("|"))
    if len(parts) != 4:
        raise UserError(f"{text!r} is not `label | row | group | column`")
    return parts


def _without_wildcards(entries: Mapping[str, EntryKey]) -> tuple[dict[str, EntryKey], dict[str, list[str]]]:
    """Replace an entry whose row is ``*`` by entries for all printed rows that the claim does not name otherwise.

    Return the entries, and for each wildcard the names that replace it.
    """
    plain = {name: key for name, key in entries.items() if key[1] != "*"}
    lists: dict[str, list[str]] = {}
    for name, (label, row, *place) in entries.items():
        if row == "*":
            rows = [key for key in all_entries() if (key[0], *key[2:]) == (label, *place) and key not in plain.values()]
            named = {f"{name}_{re.sub('[^a-z0-9]+', '_', key[1].lower())}": key for key in rows}
            lists[name] = list(named)
            plain |= named
    return plain, lists


def _listed(text: str, lists: Mapping[str, list[str]]) -> str:
    for name, names in lists.items():
        text = re.sub(rf"\b{re.escape(name)}\b", ", ".join(names), text)
    return text


def _refuse_unknown(
    entries: Mapping[str, EntryKey], known: Collection[EntryKey] | None, any_group: bool = False
) -> None:
    if known is None:
        return
    chosen = (0, 1, 3) if any_group else (0, 1, 2, 3)
    keys = {tuple(key[i] for i in chosen) for key in known}
    for name, key in entries.items():
        if tuple(key[i] for i in chosen) not in keys:
            asked, *names = (" | ".join(k) for k in (key, *sorted(known)))
            nearest = get_close_matches(asked, names, n=1, cutoff=0)[0]
            raise UserError(f"{name} names no entry: {asked!r}; nearest: {nearest}")
        groups = {group for label, _, group, _ in known if label == key[0]}
        if key[2] not in groups and not _is_block(key[2]):
            raise unknown_choice(f"group of {name}", key[2], groups | {f"{env} small" for env in known_environments()})


def _is_block(group: str) -> bool:
    """Whether runs can make such a block: ``qwen3``, ``sokoban small`` or ``gate_form sokoban small``."""
    match = re.fullmatch(r"(?:(?:(\w+) )?(\w+) )?(\w+)", group)
    if not match or not (CONF / "model" / f"{match[3]}.yaml").exists():
        return False
    study, env = match[1], match[2]
    known = study is None or (EXPERIMENTS / f"{study}.yaml").exists()
    return known and env in (None, *known_environments())
