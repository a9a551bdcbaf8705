"""``python -m bepo.credit NAME [key=value ...] --records FILE``: apply an estimator to recorded rollouts.

FILE is a saved rollout group (.npz), or JSON: a list of rows, or a list of cases that each have ``rows`` (the layout of
docs/records.md). Prints a line a record and the diagnostics, or writes them with ``--out``.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np

from bepo.credit import Credit, Estimator, estimators, make
from bepo.errors import UserError
from bepo.plugins import assignments
from bepo.rollout import RolloutGroup


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bepo.credit",
        description=__doc__,
        epilog="estimators:\n" + "\n".join(f"  {title}" for title in map(_title, estimators().values())),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", help="estimator; see --list")
    parser.add_argument("settings", nargs="*", metavar="key=value", help="hyper-parameters, as JSON values")
    parser.add_argument("--records", type=Path, help="recorded rollouts")
    parser.add_argument("--out", type=Path, help="write JSON here instead of printing")
    parser.add_argument("--list", action="store_true", help="show every estimator with its citation")
    options = parser.parse_args(arguments)
    try:
        if options.list:
            print(_listing())
            return 0
        if options.name is None or options.records is None:
            parser.error("name an estimator and --records FILE, or ask for --list")
        estimator = make(options.name, **assignments(options.settings))
        group = _read(options.records)
        _show(group, estimator(group), options.out)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _title(cls: type[Estimator]) -> str:
    return f"{cls.name:12} {cls.citation}{'  RECONSTRUCTION' if cls.reconstruction else ''}"


def _listing() -> str:
    lines = []
    for cls in estimators().values():
        lines.append(_title(cls))
        lines.append(f"{'':12} {cls.__doc__.splitlines()[0]}")
        lines.append(f"{'':12} needs: {cls.traits['needs']}")
        profiles = getattr(cls, "profiles", {})
        hidden = {"name"}.union(*profiles.values())
        defaults = (f"{f.name}={_word(f.default)}" for f in fields(cls) if f.name not in hidden)
        lines.append(f"{'':12} {' '.join(defaults)}")
        for profile, values in profiles.items():
            chosen = " ".join(f"{k}={_word(v)}" for k, v in values.items())
            lines.append(f"{'':12} profile={profile}: {chosen}")
    return "\n".join(lines)


def _word(value: object) -> str:
    """A default as it is written on a command line."""
    return value if isinstance(value, str) else json.dumps(value)


def _read(path: Path) -> RolloutGroup:
    if path.suffix == ".npz":
        return RolloutGroup.load(path)
    try:
        content = json.loads(path.read_text())
        cases = [case["rows"] for case in content] if "rows" in content[0] else [content]
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise UserError(f"{path}: neither rows nor cases with rows ({error!r})") from error
    try:
        return RolloutGroup.concat([RolloutGroup.from_rows(rows) for rows in cases])
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{path}: a row is not usable ({error!r})") from error


def _show(group: RolloutGroup, credit: Credit, out: Path | None) -> None:
    if out is not None:
        columns = {"advantage": credit.advantage, **credit.terms}
        written = {k: v[np.argsort(group.row)].tolist() for k, v in columns.items()}
        try:
            out.write_text(json.dumps({"metrics": credit.metrics, **written}, indent=1))
        except OSError as error:
            raise UserError(f"{out}: cannot be written ({error.strerror})") from error
        print(f"{len(group)} records, {group.n_groups} groups -> {out}")
        return
    print("task,trajectory,step,state,advantage")
    for i in range(len(group)):
        state = json.dumps(group.state_key[group.state[i]])
        place = f"{group.task[group.group[i]]},{group.trajectory[i]},{group.step[i]}"
        print(f"{place},{state},{credit.advantage[i]:.6f}")
    for key, value in credit.metrics.items():
        print(f"# {key} {value:.6g}")


if __name__ == "__main__":
    sys.exit(main())
