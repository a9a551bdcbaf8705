"""What ``step`` and ``reset`` of environments of other packages return, as plain values.

Arrays of one number and numpy's scalars count as what they hold. Anything unclear is a ``UserError`` with the ID.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from bepo.core.errors import UserError, briefly
from bepo.core.numbers import MOST_REWARD, plain_number

_OF_STEP = "observation, reward, terminated, truncated, info"


class Stepped(NamedTuple):
    """The values of Gymnasium's ``step``."""

    observation: Any
    reward: float
    ended: bool
    cut: bool
    info: Mapping[str, Any]


def stepped(env_id: str, values: object) -> Stepped:
    """Return the values of ``step``. Raises ``UserError`` for another number of them, or wrong ones."""
    if not isinstance(values, tuple | list) or len(values) != len(Stepped._fields):
        old = ", as in gym before 0.26" if isinstance(values, tuple | list) and len(values) == 4 else ""
        raise UserError(f"env.id={env_id}: its step returned {_described(values)}{old}, not ({_OF_STEP})")
    observation, reward, ended, cut, info = values
    return Stepped(
        observation,
        reward_of(env_id, reward),
        flag_of(env_id, "terminated", ended),
        flag_of(env_id, "truncated", cut),
        _info(env_id, "step", info),
    )


def begun(env_id: str, values: object) -> tuple[Any, Mapping[str, Any]]:
    """Return observation and info of ``reset``. Raises ``UserError`` for anything else."""
    if not isinstance(values, tuple | list) or len(values) != 2:
        raise UserError(f"env.id={env_id}: its reset returned {_described(values)}, not (observation, info)")
    return values[0], _info(env_id, "reset", values[1])


def reward_of(env_id: str, value: object) -> float:
    """Return a reward. Raises ``UserError`` unless it is one finite number."""
    try:
        reward = float(plain_number(value))
    except ValueError:
        raise UserError(f"env.id={env_id}: its step returned the reward {briefly(value)}, must be a number") from None
    if not abs(reward) <= MOST_REWARD:
        raise UserError(
            f"env.id={env_id}: its step returned the reward {reward}, must be finite, at most {MOST_REWARD:g} in size"
        )
    return reward


def flag_of(env_id: str, name: str, value: object) -> bool:
    """Return a flag. Raises ``UserError`` unless it is one true or false value."""
    try:
        flag = plain_number(value)
    except ValueError:
        flag = None
    if flag not in (0, 1):
        raise UserError(f"env.id={env_id}: its step returned {name}={briefly(value)}, must be true or false")
    return bool(flag)


def text_of(env_id: str, doing: str, value: object) -> str:
    """Return a text. Raises ``UserError`` for anything else."""
    if not isinstance(value, str):
        raise UserError(f"env.id={env_id}: its {doing} returned the observation {briefly(value)}, must be a text")
    return value


def _info(env_id: str, doing: str, value: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UserError(f"env.id={env_id}: its {doing} returned {_described(value)} as info, must be a dictionary")
    return value


def _described(value: object) -> str:
    return f"{len(value)} values" if isinstance(value, tuple | list) else type(value).__name__
