"""bepo: an experiment harness for credit assignment in LLM agents."""

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bepo.explore.frames import load as load

__all__ = ["load"]
__version__ = "0.1.0"


def _excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Say in one word that a command was interrupted while it was imported, which takes seconds."""
    if issubclass(kind, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


if sys.argv[:1] == ["-m"]:  # python -m, which has not found the module yet
    sys.excepthook = _excepthook


def __getattr__(name: str) -> Any:
    """Import ``load`` when it is first used: a command that needs no pandas starts without."""
    if name == "load":
        from bepo.explore.frames import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
