"""bepo: an experiment harness for credit assignment in LLM agents."""

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bepo.explore.frames import load as load

__all__ = ["load"]
__version__ = "0.1.0"


def _excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print "interrupted" instead of a traceback when Ctrl-C arrives during the imports, which take seconds."""
    if issubclass(kind, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


if sys.argv[:1] == ["-m"]:  # started by python -m, and the module is still to be found
    sys.excepthook = _excepthook


def __getattr__(name: str) -> Any:
    """Import ``load`` when it is first used, so that other commands start without pandas."""
    if name == "load":
        from bepo.explore.frames import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
