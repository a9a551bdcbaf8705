"""Grids, the layout of most tables: rows are methods or settings, columns are metrics, blocks are models or factors.

The rows follow from the reported numbers and from the runs. A table file only names them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from analysis.data.methods import NEEDS_LANGUAGE, PROMPTED, environment_name, known_methods, name_of
from analysis.data.reported import Reported, entries_of
from analysis.data.statistics import Estimate, Level, compare
from analysis.data.studies import Studies, StudyRuns
from analysis.grid import notes
from analysis.grid.parts import Line, Member, Metric, RowGroup, Rows
from analysis.grid.table import NEEDS_WORDS, NOT_MEASURED, NOT_RUN, Entry, Printed, Table


def grid(
    label: str,
    studies: StudyRuns | Studies,
    caption: str,
    metrics: Sequence[Metric],
    blocks: Sequence[RowGroup],
    rows: Rows = Rows(),  # noqa: B008 (frozen)
    level: Level = "training",
) -> Table:
    """Return the table of ``label``: reported beside reproduced numbers, with the runs of every entry.

    ``blocks`` are the paper's. Runs of other models or environments get additional blocks after them. ``level``: the
    seeds of the paper's deviations; ablations have one training seed, so their level is evaluation seeds. With more
    than three metrics, reproduced numbers are below the reported ones.
    """
    every = [studies] if isinstance(studies, StudyRuns) else list(studies.values())
    members = [Member(s.name, r.env, r.model, row, r) for s in every for row, runs in s.rows.items() for r in runs]
    members += [Member(s.name, *place, refusal=reason) for s in every for place, reason in s.refused.items()]
    members.sort(key=lambda m: ([s.name for s in every].index(m.study), m.env, m.model))
    made = _Grid(label, metrics, rows, level, entries_of(label), members)
    lines = [line for block in (*blocks, *made.unlisted_blocks(blocks)) for line in made.lines(block)]
    below, tier = len(metrics) > 3, every[0].tier
    columns = [(metric.group, metric.name) for metric in metrics] if below else _columns(metrics, tier)
    heads, values = [*rows.heads, ""] if below else rows.heads, []
    for line in lines:
        labels = [Printed(text, mark=line.mark * (i == rows.named)) for i, text in enumerate(rows.labels(line.row))]
        for numbers in _below(line, metrics, tier) if below else _beside(line, metrics):
            values.append((line, [*labels, *numbers]))
            labels = [""] * len(labels)
    return without_unused(
        Table(
            caption,
            [*heads, *columns, "Seeds"],
            [row for _, row in values],
            [*notes.of_grid(every, lines, metrics), *(_absent(lines, tier) if below else [])],
            headings=[_heading(line.block, tier) for line, _ in values],
            left=len(heads),
            named=rows.named,
            entries=[entry for line in lines for entry in line.entries],
            methods=[_method(line.row) for line, _ in values],
        )
    )


def _heading(block: RowGroup, tier: str) -> str:
    """Return the heading of a block; below tier paper its model is a stand-in for the paper's."""
    return block.name if tier == "paper" else block.name.replace("the paper's", "stand-in for the paper's")


def without_unused(table: Table) -> Table:
    """Return the table without columns of reported numbers and gaps in which no row has one."""
    unused = {"Reported", "Gap"}
    empty = {j for j, (_, name) in enumerate(table.columns) if name in unused and not _has_any(table, j)}
    kept = [j for j in range(len(table.columns)) if j not in empty]
    table.columns = [table.columns[j] for j in kept]
    table.rows = [[row[j] for j in kept] for row in table.rows]
    return table


def _has_any(table: Table, column: int) -> bool:
    return any(row[column].value is not None for row in table.rows) or not table.rows


def _method(row: str) -> str:
    """Return the printed name of a row's method; empty for a row of settings."""
    return name_of(row) if row in known_methods() or row in PROMPTED else ""


@dataclass(frozen=True)
class _Grid:
    label: str
    metrics: Sequence[Metric]
    rows: Rows
    level: Level
    reported: list[Reported]
    members: list[Member]

    def unlisted_blocks(self, blocks: Sequence[RowGroup]) -> list[RowGroup]:
        """Return blocks for runs that fit none of the paper's blocks.

        They name the environment only if no column does, and the study only if the paper's blocks are studies.
        """
        by_study, by_env = any(b.study for b in blocks), not any(m.env for m in self.metrics)
        unlisted = {}
        for m in self.members:
            if not any(block.takes(m) for block in blocks):
                words = [m.study] * by_study
                key = " ".join([*words, *[m.env] * by_env, m.model])
                shown = ", ".join([*words, *[environment_name(m.env)] * by_env, f"model {m.model}"])
                name = f"{shown} (not in the paper)"
                unlisted[key] = RowGroup(key, name, m.model, m.env if by_env else None, m.study if by_study else None)
        return list(unlisted.values())

    def lines(self, block: RowGroup) -> list[Line]:
        """Return the rows of a block: the paper's in its order, then rows that only runs have."""
        members = [member for member in self.members if block.takes(member)]
        printed, run = (p.row for p in self.reported if p.group == block.key), {m.row for m in members}
        known = dict.fromkeys([*printed, *block.rows])
        known |= dict.fromkeys(p.row for p in self.reported if p.row in run)
        lines = []
        for row in [*known, *self.rows.order(run - set(known))]:
            line = Line(block, row, self.rows.labels(row)[self.rows.named])
            line.reported = [p for p in self.reported if (p.group, p.row) == (block.key, row)]
            line.entries = [self._entry(line, metric, [m for m in members if m.row == row]) for metric in self.metrics]
            lines.append(line)
        for j in (j for j, metric in enumerate(self.metrics) if metric.ranked):
            _rank([line.entries[j] for line in lines])
        return lines

    def _entry(self, line: Line, metric: Metric, members: list[Member]) -> Entry:
        path = "/".join(filter(None, (self.label, metric.group, metric.name, line.name, line.block.key)))
        values = {p.column: p.value for p in line.reported if isinstance(p.value, Estimate)}
        members = [member for member in members if metric.env in (None, member.env)]
        runs = {member.run.id: member.run for member in members if member.run}
        entry = Entry(path, (self.label, line.row, line.block.key, metric.key), values.get(metric.key))
        entry.episodes = metric.episodes
        entry.runs = sorted(runs.values(), key=lambda run: (run.seed, run.id))
        entry.reproduced = metric.estimate(entry.runs, self.level)
        refusal = next((member.refusal for member in members if member.refusal), "")
        entry.missing = refusal or (NOT_MEASURED if runs else NOT_RUN)
        return entry


def _rank(entries: list[Entry]) -> None:
    """Mark the best method of a column in a block. Compare every entry with it, and it with the second best."""
    reported = [entry.reported.mean for entry in entries if entry.reported]
    for entry in entries:
        entry.best_reported = entry.reported is not None and entry.reported.mean == max(reported) > min(reported)
    measured = [(entry, entry.reproduced) for entry in entries if entry.reproduced]
    methods = [pair for pair in measured if not pair[0].of_privileged]
    methods.sort(key=lambda pair: -pair[1].mean)
    for entry, estimate in measured:
        others = [pair for pair in methods if pair[0] is not entry]
        if others:
            entry.rival, entry.versus = others[0][0].path, compare(estimate.sample, others[0][1].sample)
    for entry, estimate in methods:
        entry.best_reproduced = estimate.mean == methods[0][1].mean > methods[-1][1].mean


def _columns(metrics: Sequence[Metric], tier: str) -> list[tuple[str, str]]:
    """Return the heads of reported, reproduced and gap for each metric; metrics that are not ranked have no gap."""
    heads = [f"{metric.group} {metric.name}".strip() if len(metrics) > 1 else "" for metric in metrics]
    parts = "Reported", f"Reproduced ({tier})", "Gap"
    return [(head, part) for head, metric in zip(heads, metrics) for part in parts[: 2 + metric.ranked]]


def _beside(line: Line, metrics: Sequence[Metric]) -> list[list]:
    """Return one row: reported, reproduced and gap of each metric, and seeds."""
    printed = (entry.printed(metric.format)[: 2 + metric.ranked] for entry, metric in zip(line.entries, metrics))
    return [[*chain(*printed), _seeds(line.entries)]]


def _below(line: Line, metrics: Sequence[Metric], tier: str) -> list[list]:
    """Return up to three rows with a number for each metric and seeds: reported, reproduced by the tier, gap."""
    reported, reproduced, gap = zip(*(entry.printed(m.format) for entry, m in zip(line.entries, metrics)))
    tried = _tried(line)
    rows = [["reported", *reported, ""]] * (not tried or any(e.reported for e in line.entries))
    rows += [[tier, *reproduced, _seeds(line.entries)]] * tried
    return rows + [["gap", *gap, ""]] * any(entry.gap is not None and entry.same_models for entry in line.entries)


def _tried(line: Line) -> bool:
    return any(entry.reproduced or entry.missing != NOT_RUN for entry in line.entries)


def _absent(lines: Sequence[Line], tier: str) -> list[str]:
    """Return notes on the rows without numbers at this tier, by reason."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for line in (line for line in lines if not _tried(line)):
        why = NEEDS_WORDS if tier != "paper" and line.row in NEEDS_LANGUAGE else NOT_RUN
        reasons.setdefault(why, {}).setdefault(line.name, []).append(line.block.key)
    named = {
        why: [f"{n} ({', '.join(filter(None, k)) or tier})" for n, k in rows.items()] for why, rows in reasons.items()
    }
    return [f"{why.capitalize()} at tier {tier}: {', '.join(names)}." for why, names in named.items()]


def _seeds(entries: Sequence[Entry]) -> str:
    samples = [entry.reproduced.sample for entry in entries if entry.reproduced]
    of_episodes = [sample for sample in samples if sample.tasks] or samples  # logged metrics have no evaluation seeds
    return ", ".join(dict.fromkeys(sample.seed_counts for sample in of_episodes))
