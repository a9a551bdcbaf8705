"""What earlier analyses found, in ``$BEPO_CACHE/analysis`` (default: ``~/.cache/bepo/analysis``).

An answer is kept under the digest of everything that it depends on: runs, cells, sources, the paper's data and the
versions of libraries. Files count by size and time of change. A damaged or missing answer is computed again.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from analysis.data.sources import Source
from bepo.core.places import CONF, EXPERIMENTS, PAPER
from bepo.core.plugins import import_plugins, imported_plugins
from bepo.store.files import DiskFull, digest, write_atomically

_CODE = tuple(Path(__file__).parents[2] / name for name in ("analysis", "bepo"))
_LIBRARIES = ("matplotlib", "numpy", "optuna", "pandas", "scipy", "statsmodels", "sympy")
_MOST_SECONDS = 30 * 24 * 3600

State = list[list[str | int]]
"""Path, size and time of change (ns) of files."""


def recall(*key: object) -> Any:
    """Return the answer that was kept under this key, or None."""
    with suppress(OSError, ValueError):
        return json.loads(_file(key).read_text(encoding="utf-8"))
    return None


def keep(answer: Any, *key: object) -> None:
    """Keep an answer (JSON) under a key, and remove those of the last month. A full disk is not an error."""
    with suppress(OSError, DiskFull):
        path = _file(key)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for other in path.parent.iterdir():
            if time.time() - other.stat().st_mtime > _MOST_SECONDS:
                other.unlink()
        write_atomically(path, json.dumps(answer))


def kept(compute: Callable[[], Any], *key: object) -> Any:
    """Return the answer (JSON) that was kept under a key; if there is none, compute it and keep it."""
    found = recall(*key)
    if found is None:
        found = compute()
        keep(found, *key)
    return found


@lru_cache(maxsize=3)
def digest_of(source: Source) -> str:
    """Return the digest of everything that an analysis of ``source`` depends on, beside its options."""
    import_plugins()
    versions = [sys.version, *map(version, _LIBRARIES)]
    published = [path for runs in source.published.values() for path in _published(runs.folder)]
    runs = [*source.results.glob("runs/*/*"), *source.results.glob("studies/*/*/*.json"), source.results / "studies.db"]
    state = state_of([*_sources(), *published, *runs])
    return digest(json.dumps([versions, imported_plugins(), source.seeds, source.label, state]), 32)


def _published(folder: Path) -> list[Path]:
    return [*folder.glob("*.zip"), *folder.glob("studies/*.json"), folder / "studies.db"]


def _sources() -> Iterator[Path]:
    for folder in (*_CODE, CONF, EXPERIMENTS):
        yield from (path for path in folder.rglob("*") if path.suffix not in (".pyc", ""))
    yield from PAPER.glob("*.yaml")
    yield from PAPER.glob("*.tex")
    yield from (PAPER / "reported").glob("*")


def state_of(files: Iterable[Path]) -> State:
    """Return the state of those of the files that exist, in the order of their paths."""
    found: State = []
    for path in sorted(set(files)):
        with suppress(OSError):
            state = path.stat()
            found.append([str(path), state.st_size, state.st_mtime_ns])
    return found


def written(out: Path) -> list[Path]:
    """Return the files that an analysis writes into a folder."""
    return [*out.glob("tables/*"), *out.glob("figures/*"), *out.glob("macros.*.tex"), out / "report.html"]


def _file(key: tuple[object, ...]) -> Path:
    root = Path(os.environ.get("BEPO_CACHE") or Path.home() / ".cache" / "bepo")
    return root / "analysis" / f"{digest(json.dumps([str(part) for part in key]), 32)}.json"
