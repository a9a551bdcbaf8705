"""Settings: dataclasses whose fields say their range, and whether they are part of a run's identity."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, ClassVar

from bepo.core.errors import Missing, UserError

_RANGE = "range"
_IDENTITY = "identity"


@dataclass(frozen=True)
class Range:
    """The finite numbers that a setting may be; None stands for no bound."""

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None

    def __contains__(self, value: float) -> bool:
        return (
            math.isfinite(value)
            and (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        """Words that go on "must be ..."."""
        low = f"at least {self.at_least:g}" if self.at_least is not None else ""
        low = f"above {self.above:g}" if self.above is not None else low
        high = f"at most {self.at_most:g}" if self.at_most is not None else ""
        high = f"below {self.below:g}" if self.below is not None else high
        return " and ".join(part for part in (low, high) if part) or "finite"


def setting(
    default: Any = MISSING,
    *,
    factory: Any = MISSING,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    identity: bool = True,
) -> Any:
    """Declare a field of a ``Settings`` dataclass.

    The bounds are those of its number, or of every number in its list; None is always allowed where the type allows it.
    ``identity=False`` says that the field cannot change a result and is no part of a run's id.
    """
    bounds = Range(at_least, above, at_most, below)
    metadata = {_IDENTITY: identity} | ({_RANGE: bounds} if bounds != Range() else {})
    if factory is not MISSING:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass
class Settings:
    """Base of dataclasses of settings. Raises ``UserError`` for a number outside its declared range."""

    group: ClassVar[str] = ""
    """What its fields are called on a command line: ``training`` for ``training.learning_rate``."""
    method_version: ClassVar[int | None] = None
    """Part of every run id: raise it when the same settings give other numbers. None: nothing here changes numbers."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value, bounds = vars(self)[item.name], item.metadata.get(_RANGE)
            if bounds is not None and any(number not in bounds for number in _numbers(value)):
                name = f"{self.group}.{item.name}" if self.group else item.name
                raise UserError(f"{name}={value}: must be {bounds}")

    def missing(self) -> Missing | None:
        """Return what this machine lacks for these settings, and the command that gets it; cheap, without side effects.

        ``python -m bepo.doctor`` lists it, for every choice of a field.
        """
        return None


def _numbers(value: object) -> Iterable[float]:
    every = value if isinstance(value, list | tuple) else [value]
    return [x for x in every if isinstance(x, int | float) and not isinstance(x, bool)]


def identity_fields(kind: type) -> list[str]:
    """Return the names of the fields that are part of a run's identity."""
    return [item.name for item in fields(kind) if item.metadata.get(_IDENTITY, True)]


def identity(value: Any) -> Any:
    """Return settings as plain data, without the fields that are no part of a run's identity, at any depth."""
    if not is_dataclass(value):
        return value
    return {name: identity(vars(value)[name]) for name in identity_fields(type(value))}
