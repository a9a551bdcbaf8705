"""Plug-ins from outside this repository: modules of installed packages, and loose files or folders.

Three places name them: the entry points of group ``bepo.plugins`` of installed packages, the environment variable
``BEPO_PLUGINS``, and ``plugins=`` on a command line. Importing a module registers what it defines: estimators,
environments, losses, policies, backends, objectives, tables and figures.

A plug-in that is a package is imported with all its modules whose names do not begin with an underscore; ``tables`` and
``figures`` only by ``analysis``, because plotting libraries take seconds to import. Its folders ``conf`` and
``experiments`` hold presets and studies, as those of bepo do. A name that is taken is refused, whatever it names.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from pathlib import Path
from types import ModuleType

from bepo.core.errors import UserError
from bepo.core.places import CONF, EXPERIMENTS

GROUP = "bepo.plugins"
VARIABLE = "BEPO_PLUGINS"
SETTING = "plugins="
_OF_ANALYSIS = ("tables", "figures")
_SOURCES = (".py", ".yaml")


@dataclass(frozen=True)
class ImportedPlugin:
    """A plug-in from outside, as runs note it."""

    name: str  # of its module or package
    package: str | None  # the distribution that installed it; None for a loose file or folder
    version: str | None  # of that distribution
    digest: str  # of its source: the file, or every Python and YAML file of the package


_imported: dict[str, ImportedPlugin] = {}  # by name of the module
_asked: set[str] = set()  # texts whose import has begun


def use_plugins(overrides: Iterable[str]) -> None:
    """Import the plug-ins that overrides such as ``plugins=mine.py:another`` name, here and in later child processes.

    Raises ``UserError`` for one that cannot be imported.
    """
    import_plugins()
    for override in overrides:
        if (text := override.lstrip("+")).startswith(SETTING):
            for added in map(_absolute, _listed(text.removeprefix(SETTING))):
                _import_named(added)
                known = _listed(os.environ.get(VARIABLE, ""))
                os.environ[VARIABLE] = os.pathsep.join(dict.fromkeys([*known, added]))


def without_plugins(words: Sequence[str]) -> list[str]:
    """Import the plug-ins that ``plugins=...`` names among the words of a command line, and return the other words."""
    use_plugins(words)
    return [word for word in words if not word.lstrip("+").startswith(SETTING)]


def import_plugins() -> None:
    """Import the plug-ins of all installed packages and of ``BEPO_PLUGINS`` that are not imported yet."""
    for point in _installed(tuple(sys.path)):
        with _once(point.value) as asked:
            if asked:
                _import(point.module, point.dist.name if point.dist else None)
    for text in _listed(os.environ.get(VARIABLE, "")):
        _import_named(text)


@cache
def _installed(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return the entry points of the packages on ``path`` (``sys.path``).

    They are read once: it takes 0.1 seconds, and registries ask for every run.
    """
    return tuple(entry_points(group=GROUP))


def _import_named(text: str) -> None:
    """Import the plug-in of a path or module name, once."""
    with _once(text) as asked:
        if asked:
            _import_text(text)


@contextmanager
def _once(text: str) -> Iterator[bool]:
    """Yield whether the import of ``text`` has not begun yet. After an error it can be tried again."""
    if text in _asked:  # also while it is being imported: a plug-in may ask a registry
        yield False
        return
    _asked.add(text)
    try:
        yield True
    except BaseException:
        _asked.discard(text)
        raise


def import_artefacts() -> None:
    """Import the modules ``tables`` and ``figures`` of every plug-in."""
    import_plugins()
    for name in list(_imported):
        module = sys.modules[name]
        for part in _OF_ANALYSIS:
            if part in _modules(module):
                _checked_import(f"{name}.{part}")


def imported_plugins() -> list[dict[str, str | None]]:
    """Return the plug-ins that are imported so far: name, package, version and digest of each."""
    return [asdict(_imported[name]) for name in sorted(_imported)]


def plugin_folders(name: str) -> list[Path]:
    """Return the existing folders ``name`` (``conf`` or ``experiments``) of plug-ins that are packages."""
    import_plugins()
    packages = (path for n in sorted(_imported) for path in _folders(sys.modules[n]))
    return [place for path in packages if (place := Path(path) / name).is_dir()]


def _listed(text: str) -> list[str]:
    return [part for part in text.strip("'\"[]").replace(",", os.pathsep).split(os.pathsep) if part.strip()]


def _is_path(text: str) -> bool:
    return text.endswith(".py") or os.sep in text or (Path(text) / "__init__.py").exists()


def _absolute(text: str) -> str:
    """Return a path in absolute form, because children may work in another folder; a module name as it is."""
    return str(Path(text).expanduser().absolute()) if _is_path(text) else text


def _import_text(text: str) -> None:
    if not _is_path(text):
        _import(text, text.partition(".")[0])
        return
    path = Path(text).expanduser().absolute()
    if not path.exists():
        raise UserError(f"{SETTING}{text}: no such file or folder")
    if path.is_dir() and not (path / "__init__.py").exists():
        raise UserError(f"{SETTING}{text}: a folder must be a package, with a file __init__.py")
    folder = str(path.parent)
    if folder not in sys.path:  # at the end, so that it hides no installed module
        sys.path.append(folder)
        # Workers that unpickle the plug-in's settings import it by name.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), folder)))
    origin = _checked_import(path.stem).__file__ or ""
    if Path(origin) not in (path, path / "__init__.py"):
        raise UserError(f"{SETTING}{text}: the name {path.stem} belongs to {origin}; rename the plug-in")
    _import(path.stem, None)


def _import(name: str, package: str | None) -> None:
    """Import a module, or a package with its modules, and note it."""
    module = _checked_import(name)
    _refuse_taken(name, module)
    for part in _modules(module):
        if part not in _OF_ANALYSIS:
            _checked_import(f"{name}.{part}")
    try:
        installed = version(package) if package else None
    except PackageNotFoundError:
        package = installed = None
    _imported[name] = ImportedPlugin(name, package, installed, _digest(module))


def _refuse_taken(name: str, module: ModuleType) -> None:
    """Raise ``UserError`` if bepo or another plug-in has a preset or study with the name of one of this plug-in."""
    others = [Path(path) for other in _imported if other != name for path in _folders(sys.modules[other])]
    for kind, what, ours in (("conf", "preset", CONF), ("experiments", "study", EXPERIMENTS)):
        for folder in (Path(path) / kind for path in _folders(module)):
            for file in (path.relative_to(folder) for path in sorted(folder.rglob("*.yaml"))):
                if taken := next(
                    (place for place in (ours, *(o / kind for o in others)) if (place / file).exists()), None
                ):
                    said = f"{what} {file.with_suffix('').as_posix()!r} is taken by {taken / file}"
                    raise UserError(f"plug-in {name}: {said}; rename {folder / file}")


def _checked_import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # any type: the code of others
        raise UserError(f"plug-in {name}: cannot be imported ({type(error).__name__}: {error})") from error


def _folders(module: ModuleType) -> list[str]:
    """Return the folders of a package; none for a plain module."""
    return list(getattr(module, "__path__", []))


def _modules(module: ModuleType) -> list[str]:
    modules = pkgutil.iter_modules(_folders(module))
    return [info.name for info in modules if not info.name.startswith("_")]


def _digest(module: ModuleType) -> str:
    """Return the digest of the sources of a module, or of all sources of a package."""
    file = Path(module.__file__ or "")
    files = [file]
    if _folders(module):
        files = sorted(path for path in file.parent.rglob("*") if path.suffix in _SOURCES and path.is_file())
    contents = [(str(path.relative_to(file.parent)), sha256(path.read_bytes()).hexdigest()) for path in files]
    return sha256(repr(contents).encode()).hexdigest()[:16]
