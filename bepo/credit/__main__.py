"""``python -m bepo.credit NAME [key=value ...] --rollouts FILE``: apply an estimator to recorded rollouts.

FILE is a saved rollout batch (.npz) or JSON: a list of rows, or a list of cases with ``rows`` each (docs/files.md).
Prints a line for each transition and the diagnostics. With ``--out``, writes them as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from bepo.core.batch import RolloutBatch
from bepo.core.errors import Parser, UserError, exit_code, path_of
from bepo.core.registry import assignments
from bepo.credit import Credit, Estimator, estimators, make
from bepo.credit._audit import audit
from bepo.store.files import Corrupt, finite, read_bytes, write_output


def main(arguments: list[str] | None = None) -> int:
    return exit_code(lambda: _run(_options(arguments)))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(
        prog="python -m bepo.credit",
        description=__doc__,
        epilog="estimators:\n" + "\n".join(f"  {title}" for title in map(_title, estimators().values())),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", help="estimator; see --list")
    parser.add_argument("settings", nargs="*", default=[], metavar="key=value", help="hyper-parameters, as JSON values")
    parser.add_argument("--rollouts", "--records", type=path_of, help="recorded rollouts")
    parser.add_argument("--out", type=path_of, help="write JSON here instead of printing")
    parser.add_argument("--list", action="store_true", help="show every estimator with its citation")
    options = parser.parse_args(arguments)
    if not options.list and (options.name is None or options.rollouts is None):
        parser.error("name an estimator and --rollouts FILE, or ask for --list")
    return options


def _run(options: argparse.Namespace) -> None:
    if options.list:
        print(_listing())
        return
    estimator = make(options.name, **assignments(options.settings))
    batch = _read(options.rollouts)
    credit = estimator(batch)
    credit.metrics = audit(batch, credit)
    _show(batch, credit, options.out)


def _title(cls: type[Estimator]) -> str:
    kind = "  RECONSTRUCTION" if cls.reconstruction else "  UPPER BOUND" if cls.upper_bound else ""
    return f"{cls.name:12} {cls.citation}{kind}"


def _listing() -> str:
    lines = []
    for cls in estimators().values():
        lines.append(_title(cls))
        lines.append(f"{'':12} {(cls.__doc__ or '').splitlines()[0]}")
        lines.append(f"{'':12} needs: {cls.traits['needs']}")
        defaults = (f"{f.name}={_plain(f.default)}" for f in fields(cls) if f.name != "name")
        lines.append(f"{'':12} {' '.join(defaults)}")
    return "\n".join(lines)


def _plain(value: object) -> str:
    """Return a default in the form of a command line."""
    return value if isinstance(value, str) else json.dumps(value)


def _read(path: Path) -> RolloutBatch:
    if path.suffix == ".npz":
        return RolloutBatch.load(path)
    try:
        content = json.loads(read_bytes(path, "file of rollouts"))
        cases = [case["rows"] for case in content] if "rows" in content[0] else [content]
    except Corrupt:
        raise
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise UserError(f"{path}: must be a list of rows, or of cases with rows ({error})") from error
    if not all(isinstance(rows, list) and all(isinstance(row, dict) for row in rows) for rows in cases):
        raise UserError(f"{path}: must be a list of rows, or of cases with rows")
    for case, rows in enumerate(cases):
        for number, row in enumerate(rows):
            if problem := _problem(row):
                raise UserError(f"{path}: row {number}{f' of case {case}' if len(cases) > 1 else ''}: {problem}")
    try:
        return RolloutBatch.concat([RolloutBatch.from_rows(rows) for rows in cases])
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: not a valid row ({error!r})") from error


def _problem(row: dict[str, Any]) -> str:
    """Return the first error of a row; empty if the row is valid."""
    for name in ("uid", "traj", "obs", "next"):  # Python takes 1, 1.0 and true for the same key
        if isinstance(row.get(name), bool | float):
            return f"{name}={row[name]!r:.40} must be a text or a whole number"
    for name in ("r", "entropy", "energy", "task_score", "expert_steps", "next_expert_steps"):
        value = row.get(name, 0.0)
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e100
        if not is_number and (name in ("r", "task_score") or value is not None):
            return f"{name}={value!r:.40} must be a finite number"
    if type(step := row.get("t", 0)) is not int or not 0 <= step < 2**31:
        return f"t={step!r:.40} must be a whole number, at least 0"
    for name in ("uid", "traj", "obs", "next"):
        if isinstance(key := row.get(name), bool | float):  # Python takes 1, 1.0 and true for the same key
            return f"{name}={key!r:.40} must be text or a whole number"
    for name in ("valid", "broken"):
        if not isinstance(row.get(name, False), bool):
            return f"{name}={row[name]!r:.40} must be true or false"
    return ""


def _show(batch: RolloutBatch, credit: Credit, out: Path | None) -> None:
    if out is not None:
        columns = {"advantage": credit.advantage, **credit.terms}
        written = {k: v[np.argsort(batch.row)].tolist() for k, v in columns.items()}
        try:
            text = json.dumps(finite({"metrics": credit.numbers(), **written}), indent=1, allow_nan=False)
            write_output(out, text)
        except OSError as error:
            raise UserError(f"{out}: cannot be written ({error.strerror})") from error
        print(f"{len(batch)} transitions, {batch.n_groups} groups -> {out}")
        return
    print("task,trajectory,step,state,action,advantage")
    actions = batch.actions
    for i in range(len(batch)):
        state, action = json.dumps(batch.state_key[batch.state[i]]), json.dumps(actions[i]) if actions[i] else ""
        place = f"{batch.task[batch.group[i]]},{batch.trajectory[i]},{batch.step[i]}"
        print(f"{place},{state},{action},{credit.advantage[i]:.6f}")
    sys.stdout.flush()  # raise the error of a closed pipe here, not at exit
    for key, value in credit.metrics.items():
        print(f"# {key} {value:.6g}")


if __name__ == "__main__":
    sys.exit(main())
