"""Settings: dataclasses whose fields declare their range and whether they are part of the run ID."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, ClassVar, Literal, get_type_hints

from bepo.core.errors import Missing, UserError

RANGE = "range"
_IDENTITY = "identity"
_NEUTRAL = "neutral"


@dataclass(frozen=True)
class Range:
    """The range of a setting. Numbers must be finite and below 2^63; None: no further bound."""

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None

    def __contains__(self, value: float) -> bool:
        return (
            abs(value) < 2**63
            and (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        """Return the text that follows "must be" in a message."""
        low = f"at least {self.at_least:g}" if self.at_least is not None else ""
        low = f"above {self.above:g}" if self.above is not None else low
        high = f"at most {self.at_most:g}" if self.at_most is not None else ""
        high = f"below {self.below:g}" if self.below is not None else high
        return " and ".join(part for part in (low, high) if part) or "finite and below 2^63"


def setting(
    default: Any = MISSING,
    *,
    factory: Any = MISSING,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    identity: bool | Literal["default"] = True,
    neutral: bool = False,
) -> Any:
    """Declare a field of a ``Settings`` dataclass.

    The bounds hold for a number, and for every number of a list. None is allowed if the type allows it. Without bounds
    a number must be finite.

    ``identity=False``: excluded from the run ID, because the field changes at most the rounding of numbers.
    ``identity="default"``: the run ID always contains the default value, which keeps old IDs valid.
    ``neutral=True``: the default is excluded from the run ID, so that runs from before the field existed keep theirs.
    A field that is added after runs were published must be neutral or have ``identity=False``.
    """
    bounds = Range(at_least, above, at_most, below)
    metadata = {_IDENTITY: identity, _NEUTRAL: neutral} | ({RANGE: bounds} if bounds != Range() else {})
    if factory is not MISSING:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass
class Settings:
    """Base of dataclasses of settings. Raises ``UserError`` for a number outside its declared range."""

    group: ClassVar[str] = ""
    """Prefix of the fields on a command line, such as ``training`` in ``training.learning_rate``."""
    method_version: ClassVar[int | None] = None
    """Part of the run ID. Raise it when the same settings give other numbers. None: these settings change no number."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value, bounds = vars(self)[item.name], item.metadata.get(RANGE, Range())
            if any(number not in bounds for number in _numbers(value)):
                name = f"{self.group}.{item.name}" if self.group else item.name
                fits = bounds == Range() or all(abs(number) < 2**63 for number in _numbers(value))
                raise UserError(f"{name}={value}: must be {bounds}{'' if fits else ', and finite and below 2^63'}")

    def refuse_idle(self, names: Iterable[str], beside: str, instead: str) -> None:
        """Raise ``UserError`` if one of these fields has been changed, although it has no effect ``beside`` a setting.

        ``instead`` is a setting with which it has one.
        """
        for item in (item for item in fields(self) if item.name in names):
            value, default = vars(self)[item.name], _default_of(item)
            if value != default:
                words = (str(v).lower() if isinstance(v, bool) else v for v in (value, default))
                given, usual = (f"{self.group}.{item.name}={word}" for word in words)
                raise UserError(f"{given}: has no effect with {beside}; choices: {instead}, {usual}")

    def missing(self) -> Missing | None:
        """Return the part that this machine lacks for these settings, with the command that installs it, or None.

        Must be cheap and without side effects: ``python -m bepo.doctor`` calls it for every choice of a field.
        """
        return None


def _numbers(value: object) -> Iterable[float]:
    every = value if isinstance(value, list | tuple) else [value]
    return [x for x in every if isinstance(x, int | float) and not isinstance(x, bool)]


def identity(value: Any) -> Any:
    """Return settings as plain data, at any depth, with only what the run ID contains.

    Fields with ``identity=False`` are left out, and neutral fields with their default value.
    """
    if not is_dataclass(value):
        return value
    inside = {item.name: item for item in fields(value) if item.metadata.get(_IDENTITY, True)}
    values = {name: vars(value)[name] if _changes_the_run(item) else _default_of(item) for name, item in inside.items()}
    neutral = {item.name for item in fields(value) if _is_neutral(item) and values.get(item.name) == _default_of(item)}
    return {name: identity(part) for name, part in values.items() if name not in neutral}


def in_identity(value: Any, path: str) -> bool:
    """Return whether the run ID depends on the field at a dotted path of settings; true for an unknown field."""
    for name in path.split("."):
        known = {item.name: item for item in fields(value)} if is_dataclass(value) else {}
        if name not in known:
            return True
        if not _changes_the_run(known[name]):
            return False
        value = vars(value)[name]
    return True


def outside_identity(value: Any) -> dict[str, Any]:
    """Return the settings that the run ID does not contain as plain data, at any depth."""
    outside = {}
    for item in fields(value):
        part = vars(value)[item.name]
        if not _changes_the_run(item):
            outside[item.name] = asdict(part) if isinstance(part, Settings) else part
        elif is_dataclass(part) and (inner := outside_identity(part)):
            outside[item.name] = inner
    return outside


def _changes_the_run(item: Field) -> bool:
    return item.metadata.get(_IDENTITY, True) is True


@cache
def neutral_defaults(kind: type) -> dict[str, Any]:
    """Return the defaults of the neutral fields of a dataclass, and of the dataclasses in it, as plain data.

    The result is cached: do not change it.
    """
    defaults, types = {}, get_type_hints(kind)
    for item in fields(kind):
        inner, default = types[item.name], _default_of(item)
        if _is_neutral(item):
            defaults[item.name] = asdict(default) if isinstance(default, Settings) else default
        elif isinstance(inner, type) and is_dataclass(inner) and (nested := neutral_defaults(inner)):
            defaults[item.name] = nested
    return defaults


def _is_neutral(item: Field) -> bool:
    return item.metadata.get(_NEUTRAL, False)


def _default_of(item: Field) -> Any:
    return item.default if item.default_factory is MISSING else item.default_factory()
