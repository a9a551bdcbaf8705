"""``python -m bepo.doctor``: check what this machine can use, and print the command that fixes each problem.

The exit status is 1 if something that ``--strict`` names is not usable, else 0.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict

from bepo.core.errors import Parser, exit_code, unknown_choice
from bepo.doctor.findings import Finding, plugin_findings
from bepo.doctor.tools import LOOKS

_REGISTRIES = {
    "environments": "bepo.envs.environments",
    "policies": "bepo.policies.policies",
    "backends": "bepo.training.backends.backends",
}


_TUTORIAL = ("sokoban", "tiny", "local")
"""The plug-ins that docs/tutorial.md uses."""


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(prog="python -m bepo.doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print all findings as JSON")
    parser.add_argument("--strict", nargs="+", metavar="NAME", default=[], help="exit with 1 unless these are usable")
    options = parser.parse_args(arguments)
    return exit_code(lambda: _look(options))


def _look(options: argparse.Namespace) -> int:
    results = list(findings())
    wanted = [_named(results, name) for name in options.strict]
    print(json.dumps([asdict(f) for f in results], indent=1) if options.json else table(results))
    return int(any(f.problem for f in wanted))


def findings() -> Iterator[Finding]:
    """Check every plug-in and every tool, and yield the findings."""
    for part, place in _REGISTRIES.items():
        module, _, function = place.rpartition(".")
        try:
            plugins = getattr(importlib.import_module(module), function)()
        except ImportError as error:
            yield Finding(part, part, f"cannot be imported ({error})", "make install")
            continue
        for name, cls in plugins.items():
            yield from plugin_findings(part, name, cls)
    for look in LOOKS:
        try:
            yield from look()
        except ImportError as error:
            yield Finding("tools", look.__name__.strip("_"), f"cannot be checked ({error})", "make install")


def table(results: list[Finding], colour: bool | None = None) -> str:
    """Return one line for each finding; below each problem, the command that fixes it."""
    colour = sys.stdout.isatty() if colour is None else colour
    yes, no = "✓✗" if _can_print("✓✗") else "+-"
    good, bad, plain = (f"\x1b[32m{yes}", f"\x1b[31m{no}", "\x1b[0m") if colour else (yes, no, "")
    shown = [f for f in results if f.problem or not f.minor]
    width = max(len(f.name) for f in shown)
    lines, part = [], ""
    for f in shown:
        if f.part != part:
            part = f.part
            lines.append(part)
        lines.append(f"  {bad if f.problem else good}{plain} {f.name:{width}}  {f.problem or f.note}".rstrip())
        if f.fix:
            lines.append(f"      {'→' if yes == '✓' else '->'} {f.fix}")
    usable = sum(not f.problem for f in shown)
    lacking = [f.name for f in results if f.name in _TUTORIAL and f.problem]
    lines.append(f"the tutorial needs {', '.join(lacking)}" if lacking else "all you need for the tutorial is here")
    return "\n".join([*lines, f"{usable} of {len(shown)} usable"])


def _can_print(text: str) -> bool:
    """Return whether the encoding of standard output has every character of a text."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _named(results: list[Finding], name: str) -> Finding:
    by_name = {f.name: f for f in results}
    if name not in by_name:
        raise unknown_choice("name", name, by_name)
    return by_name[name]


if __name__ == "__main__":
    sys.exit(main())
