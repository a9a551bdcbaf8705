"""``python -m benchmarks.snapshot``: everything that a redesign must leave as it is, as files, and their comparison.

``write FOLDER`` writes the run IDs of all published cells and archives, the composed configs (what ``--cfg job``
prints) of every tier, environment, model, estimator, loss and preset, and all that ``python -m analysis`` makes of
the published runs: tables, figures, macros, facts, the page and docs/results.md. Some PARTS may be named.
``compare BEFORE AFTER`` prints what differs and returns 1, or 0 if nothing does.
"""

from __future__ import annotations

import argparse
import difflib
import filecmp
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path

from omegaconf import OmegaConf

from analysis.data.sources import open_source
from analysis.grid.artefact import artefacts
from analysis.output.build import LeftOut, build, write
from bepo.core.errors import UserError
from bepo.core.places import CONF, EXPERIMENTS
from bepo.credit import estimators
from bepo.losses import losses
from bepo.runs.compose import CONFIG_ERRORS, config_of, explain, register_configs, to_config
from bepo.runs.config import TIERS, identity_of
from bepo.store.published import PUBLISHED, PublishedRuns
from bepo.store.runs import run_id
from bepo.sweep.composition import composed

ROOT = Path(__file__).parents[1]
_MOST_LINES = 12
"""Lines that ``compare`` shows of a file that differs."""


def cells(folder: Path) -> None:
    """Write the run ID of every published cell, composed from its overrides, and of every archive's config."""
    found = {}
    for tier in TIERS:
        runs = PublishedRuns(PUBLISHED / tier)
        for study in runs.studies():
            for cell in runs.cells(study):
                name = " ".join([study, *cell["overrides"]])
                found[name] = {"published": cell["run_id"], "composed": _composed_id(study, cell["overrides"])}
        found |= {
            f"{tier} {name}": {"stored": run_id(identity_of(config_of(runs.run(name).config)))} for name in runs.ids()
        }
    _write(folder / "cells.json", json.dumps(found, indent=1))


def _composed_id(study: str, overrides: list[str]) -> str:
    try:
        return run_id(identity_of(to_config(composed(EXPERIMENTS, study, overrides))))
    except (UserError, *CONFIG_ERRORS) as error:
        return f"refused: {explain(error)}"


def configs(folder: Path) -> None:
    """Write the config of every tier with each environment and model, and of each estimator, loss and preset."""
    envs, models = ("alfworld", "webshop", "sokoban"), ("small", "large", "qwen3")
    chosen = [[f"tier={t}", f"env={e}", f"model={m}"] for t, e, m in product(TIERS, envs, models)]
    for group, plugins in {"credit": estimators(), "loss": losses()}.items():
        names = sorted({*plugins, *(path.stem for path in (CONF / group).glob("*.yaml"))})
        chosen += [[f"{group}={name}"] for name in names]
    for overrides in chosen:
        try:
            text = OmegaConf.to_yaml(composed(CONF, "train", overrides))
        except (UserError, *CONFIG_ERRORS) as error:
            text = f"refused: {explain(error)}"
        _write(folder / "configs" / f"{' '.join(overrides)}.yaml", text)


def analysis(folder: Path) -> None:
    """Write all artefacts of the published runs, the page and docs/results.md."""
    out = folder / "analysis"
    cache = os.environ | {"BEPO_CACHE": str(folder / "cache")}  # nothing that was remembered
    for command in (["--out"], ["results", "--out"]):
        words = [sys.executable, "-m", "analysis", *command, str(out), "--source", "published"]
        subprocess.run(words, cwd=ROOT, env=cache, check=True, stdout=subprocess.DEVNULL)
    for path in out.rglob("*"):
        if path.is_file() and path.suffix not in (".png", ".pdf"):
            _write(path, path.read_text(encoding="utf-8"))


def facts(folder: Path) -> None:
    """Write all tables, and their facts, without pictures: much faster than ``analysis``."""
    source = open_source(Path("results"), "published")
    built = [build(item, source, tier) for tier in source.tiers() for item in artefacts("table").values()]
    left_out = LeftOut()
    write(built, folder, left_out)
    if left_out.problems:
        raise left_out.problems[0]
    for one in built:
        told = one.table.facts if one.table else {}
        _write(folder / "facts" / f"{one.label}.{one.tier}.json", json.dumps(told, indent=1, ensure_ascii=False))


def _write(path: Path, text: str) -> None:
    """Write a text in which the folder of the sources has no name: two checkouts give the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace(str(ROOT), "."), encoding="utf-8")


PARTS = {"configs": configs, "cells": cells, "facts": facts, "analysis": analysis}


def differences(before: Path, after: Path) -> Iterator[str]:
    """Yield a line for each file that only one has, and the first lines that differ of others."""
    files = [
        {p.relative_to(f) for p in f.rglob("*") if p.is_file() and "cache" not in p.parts} for f in (before, after)
    ]
    yield from (f"only in {before}: {path}" for path in sorted(files[0] - files[1]))
    yield from (f"only in {after}: {path}" for path in sorted(files[1] - files[0]))
    for path in sorted(files[0] & files[1]):
        if not filecmp.cmp(before / path, after / path, shallow=False):
            yield f"differs: {path}"
            if path.suffix in (".txt", ".yaml", ".md", ".csv", ".tex", ".json"):
                texts = [(folder / path).read_text(encoding="utf-8").splitlines() for folder in (before, after)]
                yield from (
                    f"    {line:.400}"
                    for line in islice(difflib.unified_diff(*texts, n=0, lineterm=""), 2, _MOST_LINES)
                )


def main() -> int:
    """Write or compare snapshots."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.snapshot", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write")
    writing.add_argument("folder", type=Path)
    writing.add_argument("parts", nargs="*", metavar="PARTS", help=", ".join(PARTS))
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.command == "compare":
        lines = list(differences(options.before, options.after))
        print("\n".join(lines) or "equal")
        return bool(lines)
    register_configs()
    for name in options.parts or PARTS:
        PARTS[name](options.folder.resolve())
        print(f"{name}: written", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
