"""Score any framework's advantage estimators on the cases of ``conformance.json``.

This file needs only the standard library. Copy it and ``conformance.json`` into a project; bepo need not be installed.

::

    python conformance.py my_adapter.py

``my_adapter.py`` defines ``ESTIMATORS``, a dictionary from method names to functions ``f(rows, settings)``. Rows are
dictionaries with the keys ``uid`` (task group), ``traj``, ``t``, ``obs`` and ``next`` (state keys), ``r``, ``done``
(None, "success", "failure" or "truncation"), ``valid``, ``action``, ``entropy``, ``energy``, ``continuation`` and
``values`` (of a critic; one a token). ``settings`` holds all settings of the case, as documented in bepo's
docs/settings.md. ``f`` returns one advantage for each row, in order. It raises ``Unsupported`` for settings that the
framework does not have.
"""

from __future__ import annotations

import argparse
import json
import math
import runpy
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

Estimator = Callable[[list[dict[str, Any]], dict[str, Any]], Sequence[float]]
STATUSES = ("passed", "failed", "unsupported")
_PARTS = (("cases", list), ("rollouts", dict), ("identities", dict), ("faults", dict))
_TERMS = 3  # standardised terms that an advantage adds up, at most


class Unsupported(Exception):
    """The framework does not have these settings."""


@dataclass(frozen=True)
class Result:
    """What an estimator gave for a case."""

    case: str
    method: str
    tests: str
    """The identity that the case tests."""
    status: str
    """One of ``STATUSES``."""
    detail: str = ""
    """What differs, or the error; empty for a passed case."""
    fault: str = ""
    """The known fault that gives these numbers; empty if none does."""


def load(path: str | Path | None = None) -> dict[str, Any]:
    """Return the cases, by default of the file beside this one. Raises ``ValueError`` if it does not have any."""
    kit = json.loads(Path(path or Path(__file__).with_suffix(".json")).read_text(encoding="utf-8"))
    if not isinstance(kit, dict) or not all(kit.get(part) and isinstance(kit[part], kind) for part, kind in _PARTS):
        raise ValueError(f"a file of cases has {', '.join(name for name, _ in _PARTS)}")
    return kit


def score(estimators: Mapping[str, Estimator], kit: Mapping[str, Any] | None = None) -> list[Result]:
    """Return a result for each case of the methods that ``estimators`` has."""
    kit = load() if kit is None else kit
    cases = (case for case in kit["cases"] if case["method"] in estimators)
    results = [_result(case, kit["rollouts"][case["rollout"]], estimators[case["method"]]) for case in cases]
    rounds = {name for name in estimators if _rounds(name, results)}
    named = [result.tests != "ties" or result.method in rounds for result in results]
    return [result if has_name else replace(result, fault="") for result, has_name in zip(results, named)]


def _result(case: dict[str, Any], rows: list[dict[str, Any]], estimator: Estimator) -> Result:
    about = case["id"], case["method"], case["tests"]
    try:
        given = [float(x) for x in estimator([dict(row) for row in rows], dict(case["settings"]))]
    except Unsupported as error:
        return Result(*about, "unsupported", str(error))
    except (Exception, SystemExit) as error:
        return Result(*about, "failed", f"{type(error).__name__}: {error}")
    expected = case["expected"]
    if len(given) != len(expected):
        return Result(*about, "failed", f"{len(given)} advantages for {len(expected)} rows")
    if not (wrong := _differences(given, expected, case["atol"])):
        return Result(*about, "passed")
    worst = max(wrong, key=lambda i: abs(given[i] - expected[i]) if math.isfinite(given[i]) else math.inf)
    detail = f"{len(wrong)} of {len(rows)} rows differ; row {worst}: {given[worst]:.6g}, expected {expected[worst]:.6g}"
    if "gives" in case:
        named = not _differences(given, case["gives"], 10 * case["atol"])
    else:
        named = "fault" in case and _is_rounding(given)
    return Result(*about, "failed", detail, case["fault"] if named else "")


def _is_rounding(values: Sequence[float]) -> bool:
    """Return whether numbers that should be 0 can be rounding errors, divided by their own deviation.

    Such a quotient is less than 1 in each term, and all its digits are arbitrary.
    """
    return all(abs(x) < _TERMS for x in values) and any(abs(x - round(x, 3)) > 1e-9 for x in values)


def _rounds(method: str, results: Sequence[Result]) -> bool:
    """Return whether all failures of ties can be rounding errors of a method that passes most of the other cases."""
    mine = [result for result in results if result.method == method]
    counts = Counter(result.status for result in mine if result.tests != "ties")
    ties = (result for result in mine if result.tests == "ties" and result.status == "failed")
    return counts["passed"] >= counts["failed"] and all(result.fault for result in ties)


def _differences(values: Sequence[float], expected: Sequence[float], atol: float) -> list[int]:
    """Return the rows whose numbers differ by more than ``atol``, plus the same relative to the expected number."""
    return [i for i, (a, b) in enumerate(zip(values, expected)) if not abs(a - b) <= atol * (1 + abs(b))]


def faults(results: Sequence[Result]) -> dict[str, list[str]]:
    """Return the cases that show each known fault, by its name."""
    named = sorted({result.fault for result in results} - {""})
    return {name: [result.case for result in results if result.fault == name] for name in named}


def report(results: Sequence[Result], kit: Mapping[str, Any]) -> str:
    """Return counts by method and identity, the first failure of each, and the faults that explain failures."""
    lines = [f"{'method':<14} {'identity':<14} passed  failed  unsupported"]
    for method, tests in sorted({(result.method, result.tests) for result in results}):
        of_both = [result for result in results if (result.method, result.tests) == (method, tests)]
        counts = Counter(result.status for result in of_both)
        passed, failed, unsupported = (counts[status] for status in STATUSES)
        lines.append(f"{method:<14} {tests:<14} {passed:>6}  {failed:>6}  {unsupported:>11}")
        if first := next((result for result in of_both if result.status == "failed"), None):
            lines += [f"    {kit['identities'][tests]}", f"    {first.case}: {first.detail}"]
    for name, cases in faults(results).items():
        lines.append(f"fault {name} in {len(cases)} cases, such as {cases[0]}: {kit['faults'][name]}")
    counts = Counter(result.status for result in results)
    lines.append(", ".join(f"{counts[status]} {status}" for status in STATUSES))
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Score the adapter that the command line names.

    Return 0 if nothing failed and 1 if a case failed. Exit with 1 if no case was scored, and with 2 for wrong input.
    """
    parser = argparse.ArgumentParser(description="Score advantage estimators on the conformance cases.")
    parser.add_argument("adapter", help="a Python file that defines ESTIMATORS")
    parser.add_argument("--cases", metavar="FILE", help="default: conformance.json beside this file")
    parser.add_argument("--json", metavar="FILE", help="also write all results to FILE")
    chosen = parser.parse_args(arguments)
    # an adapter imports this file by its name; what it then raises must be the class that is caught here
    sys.modules.setdefault("conformance", sys.modules[__name__])
    path = chosen.cases
    try:
        kit = load(path)
        path = chosen.adapter
        declared = runpy.run_path(path).get("ESTIMATORS")
        known = sorted({case["method"] for case in kit["cases"]})
        estimators = declared if isinstance(declared, Mapping) else {}
        if not estimators or not estimators.keys() <= {*known} or not all(map(callable, estimators.values())):
            raise ValueError(f"ESTIMATORS must map methods to functions; methods: {', '.join(known)}")
        if path := chosen.json:
            Path(path).open("a", encoding="utf-8").close()
    except (Exception, SystemExit) as error:  # also one that the adapter's code raises
        problem = " ".join(f"{type(error).__name__}: {error}".split())
        parser.exit(2, f"error: {path}: {problem}\n")
    results = score(estimators, kit)
    print(report(results, kit))
    if chosen.json:
        Path(chosen.json).write_text(json.dumps([asdict(result) for result in results], indent=1), encoding="utf-8")
    statuses = {result.status for result in results}
    if statuses <= {"unsupported"}:
        problem = f"no case was scored: it raised Unsupported for all {len(results)} cases"
        parser.exit(1, f"error: {chosen.adapter}: {problem}\n")
    return int("failed" in statuses)


if __name__ == "__main__":
    sys.exit(main())
