"""What earlier analyses made, kept in ``$BEPO_CACHE/analysis`` (``bepo.store.cache``).

An answer is kept under the digest of everything that it depends on: sources, the paper's data, the versions of
libraries, and the cells and runs of its studies. Published runs count by the digests of their archives, other files by
size and time of change. Runs in an answer are kept by their IDs. A damaged or missing answer is computed again.
"""

import io
import json
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from analysis.data.rows import METHOD, RowKey
from analysis.data.runs import Run
from analysis.data.sources import Source, state_of
from bepo.core.places import CONF, EXPERIMENTS, PAPER
from bepo.core.plugins import import_plugins, imported_plugins
from bepo.store import cache as files
from bepo.store.files import digest

_CODE = tuple(Path(__file__).parents[2] / name for name in ("analysis", "bepo"))
MACROS = "macros.*.tex"  # written by an analysis, into the folder of the paper too
_LIBRARIES = ("matplotlib", "numpy", "optuna", "pandas", "scipy", "statsmodels", "sympy")


class _Pickler(pickle.Pickler):
    """Write runs by ID, and all row keys as one: they are functions, and their work is done."""

    def persistent_id(self, obj: Any) -> tuple[str, ...] | None:
        if isinstance(obj, Run):
            return obj.id, obj.tier
        return ("key",) if isinstance(obj, RowKey) else None


class _Unpickler(pickle.Unpickler):
    """Read what ``_Pickler`` wrote, with the runs of a source."""

    def __init__(self, data: bytes, source: Source) -> None:
        super().__init__(io.BytesIO(data))
        self.source = source

    def persistent_load(self, pid: tuple[str, ...]) -> Run | RowKey:
        if pid == ("key",):
            return METHOD
        run = self.source.run(*pid, known=True)  # the key of the answer has the digests of its runs
        if isinstance(run, str):
            raise pickle.UnpicklingError(run)
        return run


def has(*key: object) -> bool:
    """Return whether an answer is kept under this key."""
    return files.has("analysis", tuple(map(str, key)))


def load(source: Source, *key: object) -> Any:
    """Return the answer that was kept under this key, or None."""
    with suppress(OSError, ValueError, EOFError, pickle.UnpicklingError):
        if data := files.load("analysis", tuple(map(str, key))):
            return _Unpickler(data, source).load()
    return None


def save(answer: Any, *key: object) -> None:
    """Keep an answer under a key."""
    buffer = io.BytesIO()
    with suppress(pickle.PicklingError, TypeError, AttributeError):  # a plug-in may keep functions
        _Pickler(buffer).dump(answer)
        files.save("analysis", tuple(map(str, key)), buffer.getvalue())


def cached(compute: Callable[[], Any], source: Source, *key: object) -> Any:
    """Return the answer that was kept under a key. The first time, compute it and keep it."""
    answer = load(source, *key)
    if answer is None:
        answer = compute()
        save(answer, *key)
    return answer


@lru_cache(maxsize=500)
def digest_of(source: Source, studies: tuple[str, ...] | None = None, tier: str = "") -> str:
    """Return the digest of all that an analysis of ``source`` depends on, beside its options.

    With ``studies``, only the runs of these studies at a tier count.
    """
    return digest(json.dumps([_code(source), source.state(studies, tier)]), 32)


@lru_cache(maxsize=3)
def _code(source: Source) -> str:
    """Return the digest of all that an analysis depends on beside runs. It is read once for each source."""
    import_plugins()
    versions = [sys.version, *map(version, _LIBRARIES)]
    about = [str(source.results), source.label, source.seeds]
    return digest(json.dumps([versions, imported_plugins(), about, state_of(_sources())]), 32)


def _sources() -> Iterator[Path]:
    for folder in (*_CODE, CONF, EXPERIMENTS):
        yield from (path for path in folder.rglob("*") if path.suffix not in (".pyc", ""))
    for pattern in ("*.yaml", "*.tex", "reported/*", "lab/*.csv"):
        yield from (path for path in PAPER.glob(pattern) if not path.match(MACROS))


def written(out: Path) -> list[Path]:
    """Return the files that an analysis writes into a folder."""
    return [*out.glob("tables/*"), *out.glob("figures/*"), *out.glob(MACROS), out / "report.html"]
