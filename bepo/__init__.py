"""bepo: an experiment harness for credit assignment in LLM agents.

In Python: ``bepo.train(...)``, ``bepo.sweep(...)`` and ``bepo.evaluate(...)`` (``bepo.interface``) return runs;
``bepo.load(...)`` returns stored ones.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from inspect import Signature, signature
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bepo.explore.frames import load as load
    from bepo.interface import evaluate as evaluate
    from bepo.interface import sweep as sweep
    from bepo.interface import train as train

__all__ = ["evaluate", "load", "sweep", "train"]
__version__ = "0.1.0"


def _excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print "interrupted" instead of a traceback when Ctrl-C arrives during the imports, which take seconds."""
    if issubclass(kind, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


if sys.argv[:1] == ["-m"]:  # started by python -m, and the module is still to be found
    sys.excepthook = _excepthook


class Command(ModuleType):
    """The module of a command that can be called: ``bepo.train(...)`` is ``bepo.interface.train(...)``.

    The module and the function have one name, and importing ``bepo.train`` makes it an attribute of ``bepo``.
    """

    @property
    def __doc__(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The docstring of the function, for ``help`` and for a notebook."""
        return self._function.__doc__

    @property
    def __signature__(self) -> Signature:
        """The signature of the function."""
        return signature(self._function)

    @property
    def _function(self) -> Callable[..., Any]:
        return getattr(import_module("bepo.interface"), self.__name__.rpartition(".")[2])

    def __call__(self, *arguments: str, **settings: Any) -> Any:
        """Call the function of ``bepo.interface`` that has the name of the module."""
        return self._function(*arguments, **settings)


def __dir__() -> list[str]:
    """Return the public names, those that are imported at their first use too, and the modules that were imported."""
    modules = (name for name, value in globals().items() if getattr(value, "__name__", "").startswith("bepo."))
    return sorted({*__all__, "__version__", *modules})


def __getattr__(name: str) -> Any:
    """Import what is used for the first time, so that commands start without pandas and Hydra."""
    if name in ("train", "sweep", "evaluate"):
        return import_module(f"bepo.{name}")
    if name == "load":
        from bepo.explore.frames import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
