"""``python -m analysis study NAME``: any study as a table and curves, with a row per setting that varies."""

from collections.abc import Callable, Iterable, Sequence
from math import inf

import pandas as pd

from analysis.contrast import Contrast
from analysis.data.methods import is_privileged, known_methods, name_of, ordered, row_label
from analysis.data.rows import RowKey
from analysis.data.runs import Run, grouped
from analysis.data.sources import Source
from analysis.data.studies import StudyRuns
from analysis.grid.grid import grid
from analysis.grid.parts import Metric, RowGroup, Rows, size_of
from analysis.grid.table import Figure, Table
from analysis.output.build import Built
from analysis.plots import style
from bepo.core.errors import unknown_choice
from bepo.explore.colours import free
from bepo.explore.frames import differing, question_of


def _last_validation(run: Run) -> float:
    return 100 * float(run.metrics["eval/validation_success"].dropna().iloc[-1])


# A search must not see test tasks, and so its trials are not ranked by them.
VALIDATION = Metric("validation", "Validation success", value=_last_validation, headline=True, format=".2f")
SUCCESS = Metric("success", "Success", headline=True, format=".2f")
_EPISODES = {"score": "task_score", "return": "return", "steps": "steps", "valid": "valid"}
_SHARES = ("task_score", "valid")


def build_study(name: str, source: Source, tier: str, metrics: Sequence[str] = ()) -> list[Built]:
    """Return the table and the curves of a study at a tier; an empty list if it has no runs there.

    ``metrics``: columns beside success. ``score``, ``return``, ``steps`` and ``valid`` are of test episodes. Other
    names are logged metrics, averaged over updates. Raises ``UserError`` for an unknown study, and for a metric that
    no run has.
    """
    if name not in source.studies():
        raise unknown_choice("study with runs", name, source.studies())
    every = source.all_of_study(name, tier)
    differing_settings, fields = varying(every)
    key = RowKey(lambda run: row_of(run, fields), tuple(differing_settings), within=tuple(_seeds(every)))
    study = source.study(name, tier, key)
    if not study.runs:
        return []
    first = VALIDATION if any(name in run.searches for run in study.runs) else SUCCESS
    chosen = (first, *(_metric(metric, study.runs) for metric in metrics))
    label = f"study-{name}"
    searched = first is VALIDATION  # a search must not see test tasks
    compared = Table("", [], []) if searched else differences(study)
    return [
        Built(label, tier, _table(label, study, chosen), [study]),
        *([Built(f"{label}-differences", tier, compared, [study])] if compared.rows else []),
        Built(f"{label}-curves", tier, _curves(study, metrics), [study]),
    ]


def varying(runs: Sequence[Run]) -> tuple[list[str], list[str]]:
    """Return all settings in which these runs differ, and the fewest of them that distinguish the rows.

    The estimator and the loss come first; seeds do not count. Runs are compared within their environment and model.
    """
    places = grouped(runs, lambda run: (run.env, run.model)).values()
    values = {run: diff for place in places for run, diff in differing({run.id: run.config for run in place}).items()}
    seeds = _seeds(runs)
    names = dict.fromkeys(name for diff in values.values() for name in diff if name not in seeds)
    chosen: list[str] = []
    parts = {(run.env, run.model) for run in runs}
    first = ("credit.name", "loss.name")
    for name in sorted(names, key=lambda name: (name not in first, not name.startswith("credit."), name)):
        finer = {(run.env, run.model, *(str(values[run.id].get(n)) for n in [*chosen, name])) for run in runs}
        if len(finer) > len(parts):
            chosen, parts = [*chosen, name], finer
    return list(names), chosen


def _seeds(runs: Sequence[Run]) -> list[str]:
    """Return the settings that are the training seed in every run, such as ``policy.warm_start.seed=${seed}``."""
    names = runs[0].settings if runs else ()
    return ["seed", *(name for name in names if all(repr(run.settings.get(name)) == repr(run.seed) for run in runs))]


def row_of(run: Run, fields: Sequence[str]) -> str:
    """Return the name of a run's row: its method or preset, and the values of other settings that vary."""
    written = {name: run.written(name) for name in fields if name != "credit.name"}
    words = [f"{_short_name(name)}={value}" for name, value in written.items() if value is not None]
    return " ".join([run.preset, *words])


def _short_name(setting: str) -> str:
    """Return the last word of a dotted name; a seed has the part that it belongs to, and the name of a part is that."""
    *_, part, word = ["", *setting.split(".")]
    if part and word == "name":
        return part
    return f"{part}.{word}" if part and word == "seed" else word


def _metric(name: str, runs: Sequence[Run]) -> Metric:
    if name in _EPISODES:
        value = _EPISODES[name]
        return Metric(name, name.capitalize(), value=value, format=".2f", ranked=value in (*_SHARES, "return"))
    if not any(name in run.metrics for run in runs):
        logged = sorted({str(column) for run in runs for column in run.metrics})
        raise unknown_choice("metric", name, [*_EPISODES, *logged])
    return Metric(name, name, value=lambda run: run.mean(name), format=".3g", ranked=False)


def _table(label: str, study: StudyRuns, metrics: Sequence[Metric]) -> Table:
    several = _has_several_methods(study)
    rows = Rows(("Method" if several else "Setting",), lambda row: [_short(row, several)], order=_ordered)
    places = dict.fromkeys((run.env, run.model) for run in study.runs)
    blocks = [
        RowGroup(f"{env} {model}", f"{env}, model {model}" * (len(places) > 1), model, env) for env, model in places
    ]
    caption = f"{_heading(study)} Mean over training seeds and their sample standard deviation."
    return without_empty(grid(label, study, caption, metrics, blocks, rows))


def differences(study: StudyRuns) -> Table:
    """Return the difference of every row from the first that shares seeds with most others, paired over these seeds.

    A seed is a block where the warm start has it too. A dash: no seed in common. Empty with less than two rows.
    """
    rows, several = [], _has_several_methods(study)
    trained = [run for run in study.runs if run.updates and "train/success" in run.metrics]
    for env, of_env in grouped(sorted(trained, key=lambda run: (run.env, run.model)), _place).items():
        by_row = grouped(sorted(of_env, key=lambda run: run.seed), lambda run: str(study.key.row(run)))
        seeds = {row: {run.seed for run in by_row[row]} for row in _ordered(by_row)}
        base = max(seeds, key=lambda row: sum(bool(seeds[row] & other) for other in seeds.values()))
        for row in (row for row in seeds if row != base):
            mine, other = ({run.seed: run for run in by_row[name]} for name in (row, base))
            shared = [seed for seed in mine if seed in other]
            points = [[of(mine[seed]) - of(other[seed]) for seed in shared] for of in _MEASURES]
            name = f"{_short(row, several)} − {_short(base, several)}"
            numbers = [Contrast.over(values).text() if len(values) else "–" for values in points]
            rows.append([*env, name, str(len(points[0])), *numbers])
    heads = ["Environment", "Model", "Difference", "Seeds", "In training", "At the end"]
    caption = f"{_heading(study)} Differences in points, paired over training seeds, with Student's 95 % intervals."
    notes = ["In training: success averaged over all updates. At the end: success on the test tasks. Not corrected."]
    return Table(caption, heads, rows, notes, left=3)


def _has_several_methods(study: StudyRuns) -> bool:
    return len({run.preset for run in study.runs}) > 1


def _place(run: Run) -> tuple[str, str]:
    return run.env, run.model


_MEASURES: tuple[Callable[[Run], float], ...] = (
    lambda run: 100 * run.mean("train/success"),
    lambda run: float(run.passes().to_numpy().mean()),
)


def _heading(study: StudyRuns) -> str:
    question = question_of(study.name, (run.config for run in study.runs))
    return f"Study {study.name} (tier {study.tier}). {question}".rstrip()


def _short(row: str, several: bool) -> str:
    """Return a row's name, without the method if all rows have the same."""
    return row_label(row, name_of) if several else row.partition(" ")[2] or row_label(row, name_of)


def _ordered(rows: Iterable[str]) -> list[str]:
    places = ordered({row.split(" ")[0] for row in rows})
    return sorted(rows, key=lambda row: (places.index(row.split(" ")[0]), size_of(row)))


def without_empty(table: Table) -> Table:
    """Return a table without empty columns, such as reported numbers of a study that is not in the paper."""
    kept = [j for j in range(len(table.columns)) if any(row[j].value not in (None, "") for row in table.rows)]
    if not table.rows:
        return table
    columns = [table.columns[j] for j in kept]
    alone = not any(name == "Reported" for _, name in columns)
    table.columns = [
        ("", head or SUCCESS.name) if alone and n.startswith("Reproduced") else (head, n) for head, n in columns
    ]
    table.rows = [[row[j] for j in kept] for row in table.rows]
    return table


def _curves(study: StudyRuns, metrics: Sequence[str]) -> Figure:
    logged = [m for m in metrics if m not in _EPISODES]
    shown = {"train/success": "Training success (%)", "validation": "Validation success (%)"} | {m: m for m in logged}
    columns = 2
    figure, axes = style.panels(-(-len(shown) // columns), columns, style.PAGE, 2.2 * -(-len(shown) // columns))
    rows = _ordered(study.rows)
    colours = row_colours(rows)
    for axis, (metric, label) in zip(axes, shown.items()):
        style.over_updates(axis, label)
        for row in rows:
            line = {"label": row_label(row, name_of), "linestyle": "--" if is_privileged(row.split(" ")[0]) else "-"}
            top = 100 if label.endswith("(%)") else inf
            style.band(axis, _values(study.rows[row], metric), colours[row], 0 if top == 100 else -inf, top, **line)
        style.if_empty(axis, study.runs)
    for axis in axes[len(shown) :]:
        axis.set_visible(False)
    style.legend_above(figure, max((axis.lines for axis in axes), key=len), columns=3)
    note = style.bands_note({row_label(row, name_of): study.rows[row] for row in rows})
    caption = f"{_heading(study)} {note} Running mean of 5 updates."
    return Figure(caption, figure, study.runs)


def _values(runs: list[Run], metric: str) -> pd.DataFrame:
    """Return (updates, training seeds): success in per cent, or a logged metric as a running mean of 5 updates."""
    if metric == "validation":
        return 100 * style.by_seed(runs, "success", "validation")
    values = pd.DataFrame(style.by_seed(runs, metric).rolling(5, min_periods=1).mean())
    return pd.DataFrame(100 * values) if metric == "train/success" else values


def row_colours(rows: Sequence[str]) -> dict[str, str]:
    """Return a different colour for each row: the method's if every row has another method."""
    methods = [row.split(" ")[0] for row in rows]
    if len(set(methods)) == len(rows) and set(methods) <= known_methods().keys():
        return {row: style.method_colour(method) for row, method in zip(rows, methods)}
    return dict(zip(rows, free(len(rows))))
