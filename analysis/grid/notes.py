"""Notes under a table: the protocol of its numbers, comparisons, and warnings."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from math import isfinite, isnan

import numpy as np

from analysis.data.methods import environment_name, known_environments, name_of, row_label
from analysis.data.rows import BASELINE, ROW_IN_BLOCKS, loss_of
from analysis.data.runs import Run, grouped
from analysis.data.statistics import Difference, Scores, bootstrap, detectable, pooled_std, seeds_to_detect
from analysis.data.studies import StudyRuns, mixture
from analysis.grid.evaluations import of_evaluations
from analysis.grid.parts import Line, Metric
from analysis.grid.table import NOT_SEPARATED, ONE_SEED, Entry

_LEVELS = {"training": "over training seeds (evaluation passes averaged within each)"}
_LEVELS |= {"evaluation": "over evaluation seeds of one training seed"}
_MOST_STUDIES = 8  # that a note names
_NO_INTERVAL = "[no interval: task sets differ, or nothing deviates]"
_MUST_AGREE = {
    "task set": lambda run: run.task_set,
    "backend": lambda run: run["backend.name"],
    "success before training": lambda run: None if run.is_evaluation else run.success_before,
}


def of_grid(studies: Sequence[StudyRuns], lines: Sequence[Line], metrics: Sequence[Metric]) -> list[str]:
    """Return the paragraphs under a grid."""
    entries = [entry for line in lines for entry in line.entries]
    runs = list({run.id: run for entry in entries for run in entry.runs}.values())
    over = " or ".join(_LEVELS[level] for level in sorted({e.reproduced.level for e in entries if e.reproduced}))
    seeds = [f"Seeds: training × evaluation. ±: one sample standard deviation {over}."] if over else []
    trained = [run for run in runs if not run.is_evaluation]
    paragraphs = [
        " ".join([*protocol(studies, trained or runs), *seeds]),
        *of_evaluations(lines),
        " ".join(_signs(lines, entries)),
        *_leaders(lines, metrics),
        *_identical(lines),
        *_mixtures(entries),
        " ".join(origins(runs)),
        " ".join(_transcription(lines)),
    ]
    return [text for text in paragraphs if text]


def protocol(studies: Iterable[StudyRuns], runs: Sequence[Run]) -> list[str]:
    """Return sentences on the protocol of the reproduced numbers, by environment."""
    names, tiers, seeds = zip(*((study.name, study.tier, tuple(study.seeds)) for study in studies))
    only = [f"Training seeds {', '.join(map(str, seeds[0]))} only."] if seeds[0] else []
    if not runs:
        return [f"No complete run at tier {tiers[0]}.", *only]
    named = f"{'studies' if len(names) > 1 else 'study'} {', '.join(names)}"
    sentences = [f"Tier {tiers[0]}, {named if len(names) <= _MOST_STUDIES else f'{len(names)} studies'}.", *only]
    sentences += [_place(env, same) for env, same in sorted(grouped(runs, lambda run: run.env).items())]
    other = "This tier trains other models than the paper, so a gap compares protocols, not implementations."
    return sentences if tiers[0] == "paper" else [*sentences, other]


def _place(env: str, runs: Sequence[Run]) -> str:
    by_model = dict(sorted(grouped(runs, lambda run: run.model).items()))

    def each(value_of: Callable[[Run], object]) -> str:
        """Return the values, only once if all models have the same."""
        values = {m: _listed({str(value_of(run)) for run in same}) for m, same in by_model.items()}
        by_name = ", ".join(f"{text} ({model})" for model, text in values.items())
        return by_name if len(set(values.values())) > 1 else next(iter(values.values()))

    names = known_environments()[env].shown_settings if env in known_environments() else ()
    parts = [
        f"{environment_name(env)}: model{'s' if len(by_model) > 1 else ''} {', '.join(by_model)}",
        f"policy {each(lambda run: run['policy.path'] or run['policy.name'])}",
        *(f"{k}={each(lambda run, k=k: run[f'env.{k}'])}" for k in names if any(run[f"env.{k}"] for run in runs)),
        f"{each(lambda run: run.updates)} updates",
        f"{each(lambda run: run.tasks)} test tasks (task set {each(lambda run: run.task_set)})",
        f"backend {each(lambda run: run['backend.name'])}",
        f"success before training {each(_before)}",
    ]
    text, groups = "; ".join(parts) + ".", grouped(runs, _start).values()
    differing = [name for name, of in _MUST_AGREE.items() if any(len({of(run) for run in same}) > 1 for same in groups)]
    return f"{text} Its rows differ in {' and '.join(differing)}, so they are not comparable." if differing else text


def _listed(values: set[str]) -> str:
    """Return the values; of many numbers only the least and the greatest."""
    if len(values) > 3 and all(value.replace(".", "", 1).isdecimal() for value in values):
        return f"{min(values, key=float)} to {max(values, key=float)}"
    return " and ".join(sorted(values))


def _start(run: Run) -> tuple[str, str, int | None]:
    """Return the settings that decide a run's initial policy. Rows may differ in the warm start's seed on purpose."""
    return run.env, run.model, run["policy.warm_start.seed"]


def _before(run: Run) -> str:
    return "not evaluated" if run.success_before is None else f"{100 * run.success_before:.1f}"


def _leaders(lines: Sequence[Line], metrics: Sequence[Metric]) -> list[str]:
    """Return notes that compare the best row of each block with the second, on the headline metrics."""
    sentences = []
    for block, same in grouped(lines, lambda line: line.block).items():
        for metric, *entries in zip(metrics, *(line.entries for line in same)):
            ranked = [
                (line.name, e.reproduced, e.versus)
                for line, e in zip(same, entries)
                if e.reproduced and not e.of_privileged
            ]
            ranked.sort(key=lambda named: -named[1].mean)
            if metric.headline and len(ranked) > 1 and ranked[0][2].difference:
                (name, best, versus), (other, second, _) = ranked[:2]
                place = " ".join(p for p in (metric.group, metric.name, block.key and f"({block.key})") if p)
                sentences.append(f"{place}: {name} over {other}: {_comparison(versus, best.sample, second.sample)}")
    return sentences


def _comparison(versus: Difference, best: Scores, second: Scores) -> str:
    points = f"{versus.difference:+.1f} points"
    if versus.separated is not None and isnan(versus.p):
        return f"{points}; the training seeds of both agree exactly, so there is no interval."
    text = f"{points}, 95 % interval {versus.interval.text('.1f', _NO_INTERVAL)}"
    if versus.separated is None:
        return f"{text} over tasks; with one training seed this does not extend to other trainings."
    text += f", {'' if versus.separated else 'not '}separated; probability of improvement {versus.improvement:.2f}"
    mean = bootstrap(best)
    if isfinite(mean.low):
        text += f"; bootstrap interval of the mean {mean.text('.1f', _NO_INTERVAL)}"
    return f"{text}. {_power(versus, pooled_std(best, second))}"


def _power(versus: Difference, std: float) -> str:
    """Return the gap that these training seeds detect, and how many seeds detect the observed gap."""
    if not isfinite(std) or std == 0:
        return ""
    n, gap = versus.seeds, versus.difference
    text = f"With this standard deviation {n} seeds detect a gap of {detectable(std, n):.1f} points (power 0.8)"
    return f"{text}; {seeds_to_detect(gap, std):,} seeds detect {abs(gap):.1f}."


def _signs(lines: Sequence[Line], entries: Sequence[Entry]) -> list[str]:
    privileged = any(entry.of_privileged for entry in entries)
    verdicts, marks = {e.versus.separated for e in entries if e.rival}, "".join(line.mark for line in lines)
    texts = {
        "Bold marks the highest mean.": bool(verdicts) and not privileged,
        "Bold marks the highest mean of the methods; privileged rows are not ranked.": bool(verdicts) and privileged,
        f"{NOT_SEPARATED} not separated from the next (Welch's t, 95 %).": False in verdicts,
        f"{ONE_SEED} one training seed: not a ranking of methods.": None in verdicts,
        "ᶜ reported numbers that the paper took from elsewhere.": "ᶜ" in marks,
    }
    return [text for text, applies in texts.items() if applies]


def _identical(lines: Sequence[Line]) -> list[str]:
    """Return a note that names the rows of a block whose different runs agree in every update and every episode."""
    pairs = []
    for same in grouped(lines, lambda line: line.block).values():
        by_seed = {line.name: {run.seed: run for entry in line.entries for run in entry.runs} for line in same}
        for (a, runs), (b, others) in combinations(by_seed.items(), 2):
            shared = runs.keys() & others.keys()
            different = runs.keys() == others.keys() and all(runs[seed].id != others[seed].id for seed in shared)
            if shared and different and all(_agree(runs[seed], others[seed]) for seed in shared):
                pairs.append(f"{a} and {b}")
    return [f"Identical in every update and every episode: {'; '.join(pairs)}."] if pairs else []


def _agree(a: Run, b: Run) -> bool:
    """Return whether two trainings have the same metrics and episodes; their final success alone is compared first."""
    successes = {run.metadata["result"].get("success") for run in (a, b)}
    return len(successes) == 1 and not a.is_evaluation and a.learned == b.learned


def _mixtures(entries: Iterable[Entry]) -> list[str]:
    """Return notes on entries whose runs must not be averaged: refused, or averaged with --allow-mixed."""
    refused, averaged = {}, {}
    for entry in entries:
        if entry.refused:
            refused.setdefault(f"Not averaged, {entry.missing}", f" ({entry.path}); --allow-mixed averages them.")
        elif reason := mixture(entry.runs):
            averaged.setdefault(f"Averaged with --allow-mixed although {reason}", f" ({entry.path}).")
    return [start + end for start, end in (refused | averaged).items()]


def origins(runs: Iterable[Run]) -> list[str]:
    """Return notes on the origin of runs: several commits or devices, changed sources, broken environments."""
    runs = sorted(runs, key=lambda run: run.id)
    commits = sorted({commit for run in runs for commit, _ in run.commits})
    dirty = [run.id for run in runs if any(changed for _, changed in run.commits)]
    devices = sorted({str(run.metadata.get("device", "unknown")) for run in runs})
    cpus = sorted({cpu for run in runs for cpu in run.cpus})
    warm = [run for run in runs if run.config["policy"].get("warm_start")]
    shared = any(len({run.seed for run in same}) > 1 for same in grouped(warm, _start).values())
    broken = [(int(np.sum(run.final["broken"])), run.id) for run in runs if "broken" in run.final]
    counts = ", ".join(f"{n} of {name}" for n, name in broken if n)
    older = ", ".join(f"{run.id} ({' '.join(run.changed_since)})" for run in runs if run.changed_since)
    elsewhere = _other_processors(runs)
    texts = {
        f"Mixed commits: {', '.join(commits)}.": len(commits) > 1,
        f"From sources with uncommitted changes: {', '.join(dirty)}.": bool(dirty),
        f"Trained with older method versions; this version would train them differently: {older}.": older,
        f"Mixed devices: {', '.join(devices)}.": len(devices) > 1,
        f"Mixed processors: {', '.join(cpus)}.": len(cpus) > 1,
        f"On another kind of processor than {name_of(BASELINE)} in the same block: {elsewhere}.": elsewhere,
        "Training seeds share one warm start, so intervals over them are conditional on it.": shared,
        f"Evaluation episodes that ended because their environment broke, counted as they were: {counts}.": counts,
    }
    return [text for text, applies in texts.items() if applies]


def _other_processors(runs: Sequence[Run]) -> str:
    """Return in how many blocks the run of a row and that of ``BASELINE`` are from different kinds of processors."""
    rows = {
        run: row if run["loss.name"] in (None, "ppo_clip") else f"{row} {loss_of(run)}"
        for run in runs
        if (row := ROW_IN_BLOCKS.row(run))
    }
    beside = {(run.env, run.seed): run.cpus for run, row in rows.items() if row == BASELINE}
    shared = [run for run, row in rows.items() if row != BASELINE and (run.env, run.seed) in beside]
    labels: dict[tuple[str, int], list[str]] = defaultdict(list)  # of rows with equally many blocks
    differing: dict[tuple[str, int, int], list[str]] = defaultdict(list)
    for (env, row), same in sorted(grouped(shared, lambda run: (run.env, rows[run])).items()):
        labels[env, len(same)].append(row_label(row))
        if other := sum(run.cpus != beside[run.env, run.seed] for run in same):
            differing[env, other, len(same)].append(row_label(row))
    return "; ".join(
        f"{environment_name(env)}, {other} of {blocks} blocks: {_shorter(mixed, labels[env, blocks], blocks)}"
        for (env, other, blocks), mixed in differing.items()
    )


def _shorter(names: Sequence[str], every: Sequence[str], blocks: int) -> str:
    """Return the names, or those that they leave out of ``every`` row with so many blocks if these are fewer."""
    others = [name for name in every if name not in names]
    if len(others) >= len(names):
        return ", ".join(names)
    return " but ".join([f"every row with {blocks} blocks", *([", ".join(others)] if others else [])])


def _transcription(lines: Sequence[Line]) -> list[str]:
    """Return the transcription's notes on single reported numbers."""
    names: dict[str, dict[str, None]] = defaultdict(dict)
    for line in lines:
        for note in (entry.note for entry in line.reported if entry.note):
            names[note][line.name] = None
    copied = {note: " (copied)" * note.startswith("copied:") for note in names}
    texts = {note: note.removeprefix("copied:").strip().rstrip(".") for note in names}
    return [f"{', '.join(rows)}{copied[note]}: {texts[note]}." for note, rows in names.items()]
