"""What a YAML file describes: an object from its fields."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from bepo.core.errors import UserError

T = TypeVar("T")


def described(where: str, kind: Callable[..., T], fields: Mapping[str, Any]) -> T:
    """Return ``kind(**fields)``. Raises ``UserError`` with the place for an unknown or a missing field."""
    try:
        return kind(**fields)
    except TypeError as error:
        raise UserError(f"{where}: {str(error).partition(' ')[2]}") from None
