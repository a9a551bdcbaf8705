"""Complete a command line: ``bepo complete "train env=soko"`` prints ``env=sokoban``.

``eval "$(bepo --completion)"`` lets the shell call it. An answer must take less than 0.3 seconds, so this module
imports nothing that is slow. The choices of settings are kept (``bepo.store.cache``). The first completion after a
change of the sources, of the installed packages or of the plug-ins makes them again.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from bepo.core.places import CONF, EXPERIMENTS, PAPER
from bepo.store.cache import load, save

_PACKAGE = Path(__file__).parent
_SAFE = re.compile(r"[\w.+=/:@-]+")
"""Matches the words that are offered. A shell would expand other characters, and anyone may have named a folder."""
_OF_SETTINGS = ("train", "evaluate", "sweep", "verify")
_OF_RUNS = ("view", "diagnose", "verify", "upload", "analysis")
_OF_STUDIES = ("sweep", "view", "analysis")


def commands() -> dict[str, Path]:
    """Return the source file of every command by name: the top-level files, and the folders with a ``__main__.py``."""
    files = {path.stem: path for path in _PACKAGE.glob("*.py") if path.stem != "interface" and path.stem[0] != "_"}
    folders = {path.parent.name: path for path in _PACKAGE.glob("*/__main__.py")}
    return dict(sorted((files | folders | {"analysis": _PACKAGE.parent / "analysis" / "__main__.py"}).items()))


def main(arguments: list[str] | None = None) -> int:
    """Print what the last word of a command line may become, one a line. Return 0."""
    line = " ".join(sys.argv[1:] if arguments is None else arguments)
    *before, word = line.split(" ")
    for candidate in dict.fromkeys(completions([text for text in before if text], word)):
        print(candidate)
    return 0


def completions(before: list[str], word: str) -> list[str]:
    """Return the completions of ``word`` after the words ``before``: the command's name, then its arguments."""
    return sorted(text for text in _candidates(before, word) if text.startswith(word) and _SAFE.fullmatch(text))


def _candidates(before: list[str], word: str) -> Iterator[str]:
    if not before:
        yield from commands()
        return
    command, *given = before
    key, equals, _ = word.partition("=")
    if word.startswith("-"):
        yield from _options(command)
    elif given[-1:] in (["-cn"], ["--config-name"]):
        yield from _studies()
    elif equals and key in ("run", "results"):
        yield from (f"run={run}" for run in _runs(given) if key == "run")
    elif command in _OF_SETTINGS and equals:
        yield from (f"{key}={value}" for value in _choices()["values"].get(key.lstrip("+~"), []))
    elif command in ("play", "credit") and not given:
        yield from _choices()["values"]["env" if command == "play" else "credit"]
    else:
        if command in _OF_SETTINGS:
            yield from _settings(given)
        if command in _OF_STUDIES:
            yield from _studies()
        if command in _OF_RUNS:
            yield from _runs(given)


def _options(command: str) -> Iterator[str]:
    """Yield the options that the source of a command names."""
    files = (_PACKAGE / f"{command}.py", _PACKAGE / command / "__main__.py", _PACKAGE.parent / command / "__main__.py")
    for file in files:
        if file.is_file():
            yield from re.findall(r'"(--[a-z][a-z-]+)"', file.read_text(encoding="utf-8"))


def _settings(given: Iterable[str]) -> Iterator[str]:
    """Yield ``setting=`` for every setting of a run. Of plug-ins that ``given`` overrides choose, only their own."""
    known = _choices()
    chosen = dict(word.split("=", 1) for word in given if "=" in word)
    for setting in known["values"]:
        owners, plugin = known["owners"].get(setting), chosen.get(setting.partition(".")[0])
        if owners is None or plugin is None or plugin in owners or not _is_plugin(plugin, known["owners"]):
            yield f"{setting}="


def _is_plugin(name: str, owners: dict[str, list[str]]) -> bool:
    """Return whether a choice is a plug-in, whose settings are known, and not a preset of one."""
    return any(name in names for names in owners.values())


def _studies() -> Iterator[str]:
    yield from (path.stem for path in EXPERIMENTS.glob("*.yaml"))


def _runs(given: Iterable[str]) -> Iterator[str]:
    """Yield the IDs of all runs in the results folder and among the published ones."""
    words = list(given)
    named = [word.partition("=")[2] for word in words if word.startswith(("results=", "--results="))]
    named += [after for option, after in pairwise(words) if option == "--results"]
    with suppress(OSError):
        yield from os.listdir(Path((named or ["results"])[-1]) / "runs")
    yield from (path.stem for path in (PAPER / "runs").glob("*/*.zip"))


def _choices() -> dict[str, dict]:
    """Return the choices of all settings (``bepo.runs.choices``), from the cache if it is up to date."""
    state = _state()
    if data := load("completion", state):
        return json.loads(data)
    from bepo.runs.choices import choices_of_settings

    choices = choices_of_settings()
    save("completion", state, json.dumps(choices).encode())
    return choices


def _state() -> str:
    """Return the times and sizes of all files that the choices depend on."""
    plugins = os.environ.get("BEPO_PLUGINS", "")
    files = [*_PACKAGE.rglob("*.py"), *CONF.rglob("*.yaml"), *map(Path, filter(None, plugins.split(os.pathsep)))]
    parts: list[object] = [sys.version, plugins]
    for file in (*files, *map(Path, sys.path)):
        with suppress(OSError):
            state = file.stat()
            parts.append((str(file), state.st_mtime_ns, state.st_size))
    return repr(parts)


if __name__ == "__main__":
    sys.exit(main())
