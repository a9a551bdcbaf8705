"""bepo: an experiment harness for credit assignment in LLM agents."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bepo.explore.frames import load as load

__all__ = ["load"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import ``load`` when it is first used: a command that needs no pandas starts without."""
    if name == "load":
        from bepo.explore.frames import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
