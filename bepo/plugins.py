"""Finding plug-ins: a file in a package registers what it defines, and its existing is all it takes."""

from __future__ import annotations

import importlib
import pkgutil


def load(package: str, registry: dict[str, type]) -> dict[str, type]:
    """Import every file of ``package`` once, but those that begin with ``_``; then the registry, by name."""
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if not module.name.startswith("_"):  # shared parts, and the command line
            importlib.import_module(f"{package}.{module.name}")
    return dict(sorted(registry.items()))
