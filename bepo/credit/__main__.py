"""``python -m bepo.credit NAME [key=value ...] --rollouts FILE``: apply an estimator to recorded rollouts.

FILE is a saved rollout batch (.npz), a JSON list of rows or of cases with ``rows`` each, or JSONL with a row a line
(docs/files.md).
Prints a line for each transition and the diagnostics. With ``--out``, writes them as JSON.
NAME is an estimator; ``python -m bepo.lab replay FILE PRESET ...`` compares presets of ``credit``.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
import textwrap
from dataclasses import fields
from pathlib import Path

import numpy as np

from bepo.core.batch import RolloutBatch
from bepo.core.errors import Parser, UserError, exit_code, path_of
from bepo.core.places import CONF
from bepo.core.plugins import plugin_folders, without_plugins
from bepo.core.registry import assignments
from bepo.credit import Credit, Estimator, estimators, make
from bepo.credit._audit import audit
from bepo.credit._recorded import read_rollouts
from bepo.store.files import write_output
from bepo.store.json_files import nan_to_none


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
    parser.add_argument("--list", action="store_true", help="show every estimator with citation and presets")
    options = parser.parse_args(arguments)
    if not options.list and (options.name is None or options.rollouts is None):
        parser.error("name an estimator and --rollouts FILE, or ask for --list")
    return options


def _run(options: argparse.Namespace) -> None:
    settings = without_plugins(options.settings)
    if options.list:
        print(_listing())
        return
    if options.name not in estimators() and (path := _presets().get(options.name)):
        raise UserError(
            f"{options.name!r} is a preset of {_base(path)}: give the estimator and the settings in {path}, or compare "
            f"presets with python -m bepo.lab replay {options.rollouts} {options.name}"
        )
    estimator = make(options.name, **assignments(settings))
    batch = read_rollouts(options.rollouts)
    credit = estimator.credit_of(batch)
    audited = audit(batch, credit)
    estimator.refuse_names(credit.metrics, audited)
    credit.metrics = audited | credit.metrics
    _show(batch, credit, options.out)


def _title(cls: type[Estimator]) -> str:
    kind = "  RECONSTRUCTION" if cls.reconstruction else "  PRIVILEGED" if cls.privileged else ""
    return f"{cls.name:12} {cls.citation}{kind}"


def _listing() -> str:
    lines, bases = [], {name: _base(path) for name, path in _presets().items()}
    for cls in estimators().values():
        lines.append(_title(cls))
        lines.append(_indented((inspect.getdoc(cls) or "").split("\n\n")[0]))
        lines.append(f"{'':12} needs: {cls.traits['needs']}")
        defaults = (f"{f.name}={_plain(f.default)}" for f in fields(cls) if f.name != "name")
        lines.append(f"{'':12} {' '.join(defaults)}")
        if names := [name for name, base in bases.items() if cls.name in (base, bases.get(base))]:
            lines.append(_indented(f"presets: {' '.join(names)}"))
    lines.append(
        "\nconf/credit/PRESET.yaml says what a preset sets; python -m bepo.lab replay FILE PRESET ... compares them"
    )
    return "\n".join(lines)


def _indented(text: str) -> str:
    """Return a paragraph, wrapped below the column of citations."""
    indent = " " * 13
    return textwrap.fill(text, 120, initial_indent=indent, subsequent_indent=indent, break_long_words=False)


def _presets() -> dict[str, Path]:
    """Return the files of ``conf/credit`` by name, those of plug-ins included. This command cannot compose them."""
    files = (path for conf in (CONF, *plugin_folders("conf")) for path in (conf / "credit").glob("*.yaml"))
    return {path.stem: path for path in sorted(files, key=lambda path: path.stem)}


def _base(path: Path) -> str:
    """Return the first default of a preset: an estimator, or another preset."""
    match = re.search(r"^defaults:\s*[\[-]\s*(\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return match[1] if match else ""


def _plain(value: object) -> str:
    """Return a default in the form of a command line."""
    return value if isinstance(value, str) else json.dumps(value)


def _show(batch: RolloutBatch, credit: Credit, out: Path | None) -> None:
    if out is not None:
        columns = {"advantage": credit.advantage, **credit.terms}
        written = {k: v[np.argsort(batch.row)].tolist() for k, v in columns.items()}
        try:
            text = json.dumps(nan_to_none({"metrics": credit.numbers(), **written}), indent=1, allow_nan=False)
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
