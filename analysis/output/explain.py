"""``python -m analysis explain ENTRY``: the runs behind a number of a table."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from math import isfinite

from analysis.data.runs import Run
from analysis.data.sources import Source
from analysis.data.statistics import bootstrap
from analysis.grid.artefact import artefacts
from analysis.grid.table import Entry, Printed
from bepo.core.errors import UserError

_NONE = "[no interval]"


def explain(path: str, source: Source, tiers: Sequence[str], allow_mixed: bool = False) -> str:
    """Explain the entry ``path``, such as ``main-results/ALFWorld/All/HGPO/1.5B``.

    It is explained at the last tier with runs of it; without runs at the last tier that has it. The name in the paper's
    source is accepted too (``main-results/hgpo/1.5B/alfworld/All``). Raises ``UserError`` with the nearest names.
    """
    label = path.partition("/")[0]
    tables = artefacts("table")
    if label not in tables:
        if re.fullmatch("[0-9a-f]{6,12}", label):
            raise UserError(f"{label}: a run has no entry; python -m bepo.view {label} shows it")
        raise UserError(f"no table {label!r}; {_nearest(label, tables)}")
    known: dict[str, Entry] = {}
    without_runs: list[str] = []
    for tier in reversed(tiers):
        entries = {entry.path: entry for entry in tables[label].entries(source, tier, allow_mixed)}
        entry = entries.get(path) or {"/".join(entry.key): entry for entry in entries.values()}.get(path)
        if entry and entry.runs:
            return "\n".join(_lines(entry, tier))
        if entry:
            without_runs = without_runs or _lines(entry, tier)
        known |= entries
    if without_runs:
        return "\n".join(without_runs)
    raise UserError(f"no entry {path!r}; {_nearest(path, known)}")


def _nearest(asked: str, known: Iterable[str]) -> str:
    lower = {name.lower(): name for name in known}
    names = [lower[name] for name in get_close_matches(asked.lower(), list(lower), n=3, cutoff=0.0)]
    return f"nearest: {', '.join(names)}" if names else "this table has no entries with runs"


def _lines(entry: Entry, tier: str) -> list[str]:
    lines = [entry.path, f"  reported    {Printed(entry.reported, '.6g').text}"]
    reproduced, versus = entry.reproduced, entry.versus
    if reproduced is None:
        return [*lines, f"  reproduced  {entry.missing} (tier {tier})"]
    sample = reproduced.sample
    mean, seeds = bootstrap(sample), f"± over {reproduced.n} {reproduced.level} seeds"
    lines.append(f"  reproduced  {Printed(reproduced, '.4g').text} (tier {tier}; {seeds})")
    lines.append(f"  seeds       {sample.seed_counts} training x evaluation")
    if isfinite(mean.low):  # a logged number has no tasks and no interval
        lines.append(f"  interval    {mean.text('.2f', _NONE)} (95 %, bootstrap)")
    if entry.rival:
        lines.append(f"  against     {entry.rival}: {versus.difference:+.2f} {versus.interval.text('.2f', _NONE)}, ")
        chance = f"{versus.improvement:.2f} {versus.chance.text('.2f', '')}".rstrip()
        lines[-1] += f"paired {versus.paired.text('.2f', _NONE)}, probability of improvement {chance}"
    for run in entry.runs:
        lines += ["", *_run(run, float(sample.per_seed[sample.seeds.index(run.seed)]))]
    return [*lines, "", "  settings that all runs share", *_common(entry.runs)]


def _run(run: Run, value: float) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in sorted(run.versions.items()))
    facts = {
        "seed": f"{run.seed} training, {', '.join(map(str, run.passes().index))} evaluation: {value:.4g}",
        "task set": f"{run.task_set}, {run.tasks} tasks",
        "commit": ", ".join(commit + " (uncommitted changes)" * dirty for commit, dirty in run.commits),
        "versions": versions or "not recorded",
        "started": f"{run.started} on {run.metadata.get('device', 'unknown')}",
        **run.environment_metadata,
        "config": run.path / "config.json",
    }
    return [f"  run {run.id}   {run.path}", *(f"    {name:9} {fact}" for name, fact in facts.items())]


def _common(runs: list[Run]) -> list[str]:
    """Return the settings that all runs share, one line per part of the config."""
    parts = defaultdict(list)
    for name, value in sorted(runs[0].settings.items()):
        if all(run.settings.get(name) == value for run in runs):
            part, _, rest = name.partition(".")
            parts[part].append(f"{rest}={value}" if rest else str(value))
    return [f"    {part}: {' '.join(texts)}" for part, texts in parts.items()]
