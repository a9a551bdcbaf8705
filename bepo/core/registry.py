"""Plug-ins: dataclasses of settings that a package finds in its own files, by name."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Sequence
from dataclasses import MISSING, fields
from types import UnionType
from typing import Any, ClassVar, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from bepo.core.errors import UserError, choose
from bepo.core.settings import Settings


class Plugin(Settings):
    """A dataclass of settings, known by its ``name``. What a plug-in may say of itself has its default here."""

    name: str

    @classmethod
    def check_class(cls) -> None:
        """Raise ``UserError`` where the class says something of itself that cannot be."""

    def facts(self) -> dict[str, Any]:
        """Return what ``run.json`` should say beside the settings, such as a version of the data."""
        return {}


P = TypeVar("P", bound=Plugin)
C = TypeVar("C", bound=type[Plugin])


class Registry(Generic[P]):
    """The plug-ins of one package: each of its files, or folders, registers those that it defines."""

    def __init__(self, package: str, group: str, what: str) -> None:
        """``group`` is what the plug-ins are called in overrides (``env``), ``what`` in words (``environment``)."""
        self._package, self._group, self._what = package, group, what
        self._known: dict[str, Any] = {}  # type[P]; a decorator that says so would hide each class behind its base
        self._complete = False

    def register(self, cls: C) -> C:
        """Class decorator: make a plug-in known under its ``name``.

        Raises ``UserError`` for a class that is no dataclass, is none of this group, lacks a default or what it must
        say of itself, and for a name that a class of another file has: one of the two would be trained under the id of
        the other.
        """
        place = f"{cls.__module__}.{cls.__qualname__}"
        if "__dataclass_fields__" not in vars(cls):
            raise UserError(f"{place}: a plug-in is a dataclass: write @dataclass below @register")
        if not issubclass(cls, Plugin) or cls.group != self._group:
            raise UserError(f"{place}: must derive from the base class of {self._package}")
        kinds = get_type_hints(cls)
        if unsaid := [name for name in kinds if get_origin(kinds[name]) is ClassVar and not hasattr(cls, name)]:
            raise UserError(f"{place}: must say its {', '.join(unsaid)}")
        if bare := [item.name for item in fields(cls) if item.default is item.default_factory is MISSING]:
            raise UserError(f"{place}: a setting has a default: {', '.join(bare)} has none")
        if (words := choices(kinds["name"])) and cls.name not in words:
            raise choose(f"name of {place}", cls.name, words)
        try:
            cls.check_class()
        except UserError as error:
            raise UserError(f"{place}: {error}") from None
        other = self._known.get(cls.name, cls)
        if other.__module__ != cls.__module__:
            raise UserError(f"{place}: its name {cls.name!r} is that of {other.__module__}.{other.__qualname__}")
        self._known[cls.name] = cls
        return cls

    def __call__(self) -> dict[str, type[P]]:
        """Return every plug-in by name.

        Every file and folder of the package is imported once, but for those whose name begins with an underscore. What
        takes seconds to import, such as torch, belongs inside the functions that need it. Raises ``UserError`` for a
        file that is not valid Python.
        """
        if not self._complete:
            for name in self._modules():
                try:
                    importlib.import_module(f"{self._package}.{name}")
                except SyntaxError as error:
                    raise UserError(f"{error.filename}:{error.lineno}: {error.msg}") from error
            self._complete = True
        return dict(sorted(self._known.items()))

    def unregistered(self, name: str) -> str | None:
        """Return the module that would be the plug-in ``name`` if it had registered one, or None."""
        return f"{self._package}.{name}" if name in self._modules() and name not in self() else None

    def _modules(self) -> list[str]:
        found = pkgutil.iter_modules(importlib.import_module(self._package).__path__)
        return [module.name for module in found if not module.name.startswith("_")]

    def make(self, name: str, /, **settings: Any) -> P:
        """Return the plug-in ``name`` with settings that did not come through Hydra, which checks what it composes.

        Raises ``UserError`` naming the choices for an unknown name, setting or value.
        """
        known = self()
        if name not in known:
            raise choose(self._what, name, known)
        kinds = {k: v for k, v in get_type_hints(known[name]).items() if k != "name" and get_origin(v) is not ClassVar}
        for key, value in settings.items():
            if key not in kinds:
                raise choose(f"setting of {name}", key, kinds)
            check_type(f"{self._group}.{key}", value, kinds[key])
        return known[name](**settings)


def assignments(texts: Sequence[str]) -> dict[str, Any]:
    """Read ``key=value`` pairs of a command line; a value that is no JSON is a word. Raises ``UserError``."""
    values: dict[str, Any] = {}
    for text in texts:
        key, found, value = text.partition("=")
        if not found:
            raise UserError(f"{text!r}: write key=value")
        try:
            values[key] = json.loads(value)
        except ValueError:
            values[key] = value
    return values


def choices(kind: object) -> tuple[Any, ...]:
    """Return the words that a type allows: those of a ``Literal``, alone or in a union; none for other types."""
    return tuple(word for k in _alternatives(kind) if get_origin(k) is Literal for word in get_args(k))


def _alternatives(kind: object) -> tuple[Any, ...]:
    """Return the types of a union, or the type itself."""
    return get_args(kind) if get_origin(kind) in (UnionType, Union) else (kind,)


def check_type(what: str, value: object, kind: object) -> None:
    words = choices(kind)
    types = tuple(get_origin(k) or k for k in _alternatives(kind) if isinstance(get_origin(k) or k, type))
    accepted = (*types, int) if float in types else types
    typed = isinstance(value, accepted) and (bool in types or not isinstance(value, bool))
    if value in words or typed:
        return
    if words:
        raise choose(what, value, words)
    raise UserError(f"{what}={value!r}: must be {' or '.join(k.__name__ for k in types)}")
