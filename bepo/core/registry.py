"""Plug-ins: dataclasses of settings in the files of a package, found by name."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Collection, Iterable, Sequence
from dataclasses import MISSING, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, ClassVar, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from bepo.core.errors import UserError, unknown_choice
from bepo.core.plugins import import_plugins
from bepo.core.settings import Settings


class Plugin(Settings):
    """Base of plug-ins: dataclasses of settings with a ``name``, and defaults for what a plug-in may declare."""

    name: str

    @classmethod
    def check_class(cls) -> None:
        """Raise ``UserError`` if a class attribute has an invalid value."""

    def metadata(self) -> dict[str, Any]:
        """Return metadata for ``run.json`` beside the settings, such as a version of the data."""
        return {}

    def refuse_names(self, names: Iterable[str], taken: Collection[str]) -> None:
        """Raise ``UserError`` if a number of the plug-in has the name of one of ours, which it would replace."""
        if replaced := [name for name in names if name in taken]:
            raise UserError(
                f"{self.group}={self.name}: its {replaced[0]!r} has the name of a number of bepo; rename it"
            )


P = TypeVar("P", bound=Plugin)
C = TypeVar("C", bound=type[Plugin])


class Registry(Generic[P]):
    """The plug-ins of one package. Each file or folder of the package registers its own."""

    def __init__(self, package: str, group: str, what: str) -> None:
        """``group`` is the name in overrides (``env``), ``what`` the name in messages (``environment``)."""
        self._package, self._group, self._what = package, group, what
        self._known: dict[str, Any] = {}  # of type[P]; with that type the decorator would lose each subclass's type
        self._complete = False

    def register(self, cls: C) -> C:
        """Register a plug-in class under its ``name``; use as a class decorator.

        Raises ``UserError`` if the class is not a dataclass, has the wrong base class, or lacks a default or a required
        class attribute. Raises it also if another class has this name: run IDs could not tell them apart.
        """
        place = f"{cls.__module__}.{cls.__qualname__}"
        if "__dataclass_fields__" not in vars(cls):
            raise UserError(f"{place}: must be a dataclass; write @dataclass below @register")
        if not issubclass(cls, Plugin) or cls.group != self._group:
            raise UserError(f"{place}: must derive from the base class of {self._package}")
        kinds = get_type_hints(cls)
        if unsaid := [name for name in kinds if get_origin(kinds[name]) is ClassVar and not hasattr(cls, name)]:
            raise UserError(f"{place}: must set the class attributes {', '.join(unsaid)}")
        if bare := [item.name for item in fields(cls) if item.default is item.default_factory is MISSING]:
            raise UserError(f"{place}: every setting needs a default; missing for: {', '.join(bare)}")
        if (words := choices(kinds["name"])) and cls.name not in words:
            raise unknown_choice(f"name of {place}", cls.name, words)
        try:
            cls.check_class()
        except UserError as error:
            raise UserError(f"{place}: {error}") from None
        other = self._known.get(cls.name, cls)
        if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise UserError(f"{place}: name {cls.name!r} is taken by {other.__module__}.{other.__qualname__}")
        self._known[cls.name] = cls
        return cls

    def __call__(self) -> dict[str, type[P]]:
        """Return every plug-in by name.

        Every file and folder of the package is imported once, except those whose name begins with an underscore. Import
        slow packages, such as torch, inside the functions that need them. Plug-ins from outside follow
        (``bepo.core.plugins``). Raises ``UserError`` for a file that is not valid Python.
        """
        if not self._complete:
            for name in self._modules():
                try:
                    importlib.import_module(f"{self._package}.{name}")
                except SyntaxError as error:
                    raise UserError(f"{error.filename}:{error.lineno}: {error.msg}") from error
            self._complete = True
        import_plugins()
        return dict(sorted(self._known.items()))

    def unregistered(self, name: str) -> str | None:
        """Return the module ``name`` of the package if it exists but registers no plug-in of that name, else None."""
        return f"{self._package}.{name}" if name in self._modules() and name not in self() else None

    def _modules(self) -> list[str]:
        modules = pkgutil.iter_modules(importlib.import_module(self._package).__path__)
        return [module.name for module in modules if not module.name.startswith("_")]

    def make(self, name: str, /, **settings: Any) -> P:
        """Return the plug-in ``name`` with settings that Hydra has not checked.

        Raises ``UserError`` with the choices for an unknown name, setting or value.
        """
        known = self()
        if name not in known:
            raise unknown_choice(self._what, name, known)
        kinds = _kinds(known[name])
        for key, value in settings.items():
            if key not in kinds:
                raise unknown_choice(f"setting of {name}", key, kinds)
            check_type(f"{self._group}.{key}", value, kinds[key])
        return known[name](**settings)


@cache
def _kinds(plugin: type) -> dict[str, Any]:
    """Return the type of each setting of a plug-in."""
    return {k: v for k, v in get_type_hints(plugin).items() if k != "name" and get_origin(v) is not ClassVar}


def assignments(texts: Sequence[str]) -> dict[str, Any]:
    """Read ``key=value`` pairs of a command line. A value that is not valid JSON is a string. Raises ``UserError``."""
    values: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"{text!r}: write key=value")
        try:
            values[key] = json.loads(value)
        except ValueError:
            values[key] = value
    return values


def choices(kind: object) -> tuple[Any, ...]:
    """Return the values of a ``Literal`` type, alone or in a union; empty for other types."""
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
        raise unknown_choice(what, value, words)
    names = ("null" if k is NoneType else k.__name__ for k in types)
    raise UserError(f"{what}={value!r}: must be {' or '.join(names)}")
