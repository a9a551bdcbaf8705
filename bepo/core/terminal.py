"""How an episode ends."""

from __future__ import annotations

from enum import IntEnum

from bepo.core.errors import unknown_choice


class Terminal(IntEnum):
    """How a transition ends its trajectory. Each kind but ``NONE`` is an absorbing successor of its own."""

    NONE = 0
    SUCCESS = 1
    FAILURE = 2
    TRUNCATION = 3

    @classmethod
    def parse(cls, name: str | None) -> Terminal:
        """Return the kind of that name, in any case; None is ``NONE``. Raises ``UserError`` for an unknown name."""
        names = {t.name.lower(): t for t in cls if t}
        if name is not None and str(name).lower() not in names:
            raise unknown_choice("end of a trajectory", name, names)
        return cls.NONE if name is None else names[str(name).lower()]
