"""``python -m analysis explain PATH``: the runs behind a number of a table."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from math import isfinite
from pathlib import Path

from analysis.artefact import Cell, artefacts
from analysis.build import build
from analysis.latex import plain
from analysis.runs import Run
from analysis.sources import Source
from analysis.stats import Interval, interval, iqm
from bepo.errors import UserError


def explain(path: str, source: Source, tiers: Sequence[str], allow_mixed: bool = False) -> str:
    """What is behind ``path`` (``main-results/ALFWorld/All/HGPO/1.5B``), at the last of ``tiers`` that has runs of it.

    ``UserError`` names the nearest choices.
    """
    label = path.split("/")[0]
    tables = {name: item for name, item in artefacts().items() if item.kind == "table"}
    if label not in tables:
        raise UserError(f"no table {label!r}; {_nearest(label, list(tables))}")
    known: dict[str, str] = {}
    for scale in reversed(tiers):
        cells = {c.path: c for c in build(tables[label], source, scale, allow_mixed).product.cells}
        if path in cells and (cells[path].runs or scale == tiers[0]):
            return "\n".join(_lines(cells[path], scale))
        known |= dict.fromkeys(cells, scale)
    raise UserError(f"no cell {path!r}; {_nearest(path, list(known))}")


def _nearest(asked: str, known: list[str]) -> str:
    if not known:
        return "this table has no cells made of runs"
    lower = {name.lower(): name for name in known}
    found = get_close_matches(asked.lower(), list(lower), n=3, cutoff=0.0)
    return "nearest: " + ", ".join(lower[name] for name in found)


def _lines(cell: Cell, scale: str) -> list[str]:
    lines = [cell.path, f"  reported    {plain(cell.reported, '.6g')}"]
    if cell.found is None:
        return [*lines, f"  reproduced  {cell.missing} (tier {scale})"]
    inside = interval(cell.sample)
    lines += [
        f"  reproduced  {plain(cell.found, '.4g')} (tier {scale}; ± over {cell.found.n} {cell.found.level} seeds)",
        f"  seeds       {cell.sample.seed_counts} training x evaluation",
    ]
    if isfinite(inside.low):  # of episodes; a logged number has no tasks
        lines += [
            f"  beyond      interquartile mean {iqm(cell.sample):.4g}",
            f"  interval    {_range(inside)} (95 %, bootstrap)",
        ]
    if cell.versus:
        v = cell.versus
        lines.append(
            f"  against     {cell.rival}: {v.difference:+.2f} {_range(v.interval)}, paired {_range(v.paired)}, "
            f"probability of improvement {v.improvement:.2f}"
        )
    for run in cell.runs:
        lines += ["", *_run(run, cell)]
    return [
        *lines,
        "",
        "  config of all of them",
        *(f"    {part}: {text}" for part, text in _common(cell.runs).items()),
    ]


def _range(interval: Interval) -> str:
    return f"[{interval.low:.2f}, {interval.high:.2f}]" if isfinite(interval.low) else "[no interval]"


def _run(run: Run, cell: Cell) -> list[str]:
    own = float(cell.sample.per_seed[cell.sample.seeds.index(run.seed)])
    commits = ", ".join(commit + (" (uncommitted changes)" if dirty else "") for commit, dirty in run.commits)
    versions = ", ".join(f"{k} {v}" for k, v in sorted(run.versions.items())) or "not recorded"
    return [
        f"  run {run.id}   {run.path}",
        f"    seed      {run.seed} training, {', '.join(map(str, run.passes().seeds))} evaluation: {own:.4g}",
        f"    panel     {run.panel}, {run.tasks} tasks",
        f"    commit    {commits}",
        f"    versions  {versions}",
        f"    started   {run.started} on {run.facts.get('device', 'unknown')}",
        *(f"    {name:9} {value}" for name, value in run.environment.items()),
        f"    config    {Path(run.path) / 'config.json'}",
    ]


def _common(runs: list[Run]) -> dict[str, str]:
    """The settings that all runs share, a line for each part of the config."""
    parts: dict[str, list[str]] = {}
    for name, value in sorted(runs[0].settings.items()):
        if all(r.settings.get(name) == value for r in runs):
            part, _, rest = name.partition(".")
            parts.setdefault(part, []).append(f"{rest}={value}" if rest else str(value))
    return {part: " ".join(texts) for part, texts in parts.items()}
