"""What stands under a table: what its numbers were measured on, what they are worth, and what is wrong with them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from math import isfinite, isnan

import numpy as np

from analysis.artefact import Cell
from analysis.layout import NOT_SEPARATED, ONE_SEED
from analysis.methods import ENVIRONMENTS, RECONSTRUCTION
from analysis.parts import Line, Metric
from analysis.runs import Run, Study, mixture
from analysis.stats import Interval, detectable, interval, iqm, pooled_std, seeds_to_detect


def of_grid(studies: Sequence[Study], lines: Sequence[Line], metrics: Sequence[Metric]) -> list[str]:
    """Paragraphs."""
    runs = list({r.id: r for line in lines for r in line.runs}.values())
    paragraphs = [
        " ".join([*protocol(studies, runs), *_deviations(lines)]),
        " ".join(_signs(lines)),
        *_leaders(lines, metrics),
        *_mixtures(lines),
        " ".join(sources(runs)),
        " ".join(_published(lines)),
    ]
    return [p for p in paragraphs if p]


def protocol(studies: Sequence[Study], runs: Sequence[Run]) -> list[str]:
    """What the reproduced numbers were measured on, by environment."""
    scale = studies[0].scale
    if not runs:
        return [f"No complete run at tier {scale}."]
    names = ", ".join(study.name for study in studies)
    lines = [f"Tier {scale}, {'studies' if len(studies) > 1 else 'study'} {names}."]
    places = defaultdict(list)
    for run in runs:
        places[str(run.env)].append(run)
    lines += [_place(env, members) for env, members in sorted(places.items())]
    if scale != "paper":
        lines.append("This tier trains other models than the paper's: a gap compares protocols, not implementations.")
    return lines


def _place(env: str, runs: Sequence[Run]) -> str:
    models = sorted({r.model for r in runs})

    def each(of: Callable[[Run], object]) -> str:
        """The values, once where all models have the same."""
        found = {m: " and ".join(sorted({str(of(r)) for r in runs if r.model == m})) for m in models}
        same = len(set(found.values())) == 1
        return found[models[0]] if same else ", ".join(f"{text} ({model})" for model, text in found.items())

    settings = [f"{k}={each(lambda r, k=k: r[f'env.{k}'])}" for k in _SHOWN if any(r[f"env.{k}"] for r in runs)]
    before = {m: 100 * np.mean([_before(r) for r in runs if r.model == m]) for m in models}
    words = [
        f"{ENVIRONMENTS.get(env, env)}: model{'s' if len(models) > 1 else ''} {', '.join(models)}",
        f"policy {each(lambda r: r['policy.path'] or r['policy.name'])}",
        *settings,
        f"{each(lambda r: r.updates)} updates",
        f"{each(lambda r: r.tasks)} test tasks (panel {each(lambda r: r.panel)})",
        f"backend {each(lambda r: r['backend.name'])}",
        f"success before training {each(lambda r: f'{before[r.model]:.1f}')}",
    ]
    text = "; ".join(words) + "."
    apart = [name for name, of in _ALIKE.items() if any(len({of(r) for r in runs if r.model == m}) > 1 for m in models)]
    return f"{text} Its rows differ in {' and '.join(apart)}: they are not on a par." if apart else text


# Settings of an environment that change what is measured, and what the rows of a model have in common.
_SHOWN = (
    *("data", "test_split", "horizon", "max_receptacles", "min_solution"),
    *("graph_key", "prompt_state", "observation_mode", "observation", "rendering", "suggestions"),
)
_ALIKE: dict[str, Callable[[Run], object]] = {"panel": lambda r: r.panel, "backend": lambda r: r["backend.name"]}


def _before(run: Run) -> float:
    rows = run.episodes
    return float(rows.loc[(rows["split"] == "test") & (rows["update"] == 0), "success"].astype(float).mean())


def _deviations(lines: Sequence[Line]) -> list[str]:
    levels = {c.found.level for line in lines for c in line.cells if c.found}
    if not levels:
        return []
    words = {
        "training": "over training seeds (evaluation passes averaged within each)",
        "evaluation": "over evaluation seeds of one training seed",
    }
    over = " or ".join(words[level] for level in sorted(levels))
    return [f"Seeds: training × evaluation. ±: one sample standard deviation {over}."]


def _leaders(lines: Sequence[Line], metrics: Sequence[Metric]) -> list[str]:
    """For the headline metrics of each block: what the best row's lead is worth."""
    out = []
    for block in dict.fromkeys(line.block for line in lines):
        for j, metric in enumerate(metrics):
            ranked = [line for line in lines if line.block == block and line.cells[j].sample]
            ranked.sort(key=lambda line: -line.cells[j].found.mean)
            if metric.headline and len(ranked) > 1 and ranked[0].cells[j].versus.difference:
                place = " ".join(p for p in (metric.group, metric.name, block.key and f"({block.key})") if p)
                names = f"{place}: {ranked[0].name} over {ranked[1].name}"
                out.append(_leader(names, ranked[0].cells[j], ranked[1].cells[j]))
    return out


def _leader(names: str, best: Cell, second: Cell) -> str:
    versus, inside = best.versus, interval(best.sample)
    lead = f"{names}: {versus.difference:+.1f} points"
    if versus.separated is not None and isnan(versus.p):
        return f"{lead}; the training seeds of both agree exactly, so that nothing can be said of others."
    text = f"{lead}, 95 % interval {_range(versus.interval)}"
    if versus.separated is None:
        return f"{text} over tasks; with one training seed this says nothing of other trainings."
    told = "separated" if versus.separated else "not separated"
    text += f", {told}; probability of improvement {versus.improvement:.2f}"
    if isfinite(inside.low):
        text += f"; interquartile mean {iqm(best.sample):.1f}, bootstrap interval of the mean {_range(inside)}"
    return f"{text}. {power(best, second)}"


def power(a: Cell, b: Cell) -> str:
    """How many training seeds would tell such a gap, and what gap those at hand would."""
    std, n = pooled_std(a.sample, b.sample), min(len(a.sample.seeds), len(b.sample.seeds))
    if not isfinite(std) or std == 0:
        return ""
    least = detectable(std, n)
    text = f"At this spread {n} seeds detect a gap of {least:.1f} points (power 0.8)"
    needed = seeds_to_detect(a.versus.difference, std)
    return f"{text}; {needed:,} seeds detect {abs(a.versus.difference):.1f}." if isfinite(needed) else f"{text}."


def _range(interval: Interval) -> str:
    return f"[{interval.low:.1f}, {interval.high:.1f}]" if isfinite(interval.low) else "[unknown: panels differ]"


def _signs(lines: Sequence[Line]) -> list[str]:
    verdicts = {c.versus.separated for line in lines for c in line.cells if c.versus}
    out = ["Bold marks the highest mean."] if verdicts else []
    if False in verdicts:
        out.append(f"{NOT_SEPARATED} not separated from the next (Welch's t, 95 %).")
    if None in verdicts:
        out.append(f"{ONE_SEED} one training seed: no ranking of methods follows.")
    if any("ᶜ" in line.mark for line in lines):
        out.append("ᶜ reported numbers that the paper took from elsewhere.")
    if any("ʳ" in line.mark for line in lines):
        out.append(RECONSTRUCTION)
    return out


def _mixtures(lines: Sequence[Line]) -> list[str]:
    """Cells that were refused, or averaged on demand, though their runs do not belong together."""
    refused: dict[str, str] = {}
    averaged: dict[str, str] = {}
    for cell in (c for line in lines for c in line.cells):
        if cell.missing.startswith("mixed"):
            refused.setdefault(cell.missing, cell.path)
        elif reason := mixture(cell.runs):
            averaged.setdefault(reason, cell.path)
    return [
        *(f"Not averaged, {reason} ({path}); --allow-mixed averages them." for reason, path in refused.items()),
        *(f"Averaged on demand although {reason} ({path})." for reason, path in averaged.items()),
    ]


def sources(runs: Iterable[Run]) -> list[str]:
    """Marks numbers whose source is not one known commit, that ran on several kinds of machine, or whose environments
    broke."""
    runs = sorted(runs, key=lambda r: r.id)
    commits = sorted({c for r in runs for c, _ in r.commits})
    dirty = [r.id for r in runs if any(d for _, d in r.commits)]
    devices = sorted({str(r.facts.get("device", "unknown")) for r in runs})
    out = []
    if len(commits) > 1:
        out.append(f"Mixed commits: {', '.join(commits)}.")
    if dirty:
        out.append(f"From a source tree with uncommitted changes: {', '.join(dirty)}.")
    if len(devices) > 1:
        out.append(f"Mixed devices: {', '.join(devices)}.")
    broken = {r.id: int(r.final["broken"].sum()) for r in runs if "broken" in r.final}
    if any(broken.values()):
        those = ", ".join(f"{n} of {i}" for i, n in broken.items() if n)
        out.append(f"Evaluation episodes that ended because their environment broke, counted as they stood: {those}.")
    return out


def _published(lines: Sequence[Line]) -> list[str]:
    """What the transcription says about single numbers."""
    said: dict[str, dict[str, None]] = defaultdict(dict)
    for line in lines:
        for cell in line.published:
            if cell.note:
                said[cell.note][line.name] = None
    texts = {note: note.removeprefix("copied:").strip().rstrip(".") for note in said}
    marks = {note: " (copied)" if note.startswith("copied:") else "" for note in said}
    return [f"{', '.join(names)}{marks[note]}: {texts[note]}." for note, names in said.items()]
