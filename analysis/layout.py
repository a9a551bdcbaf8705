"""Lines of a grid as a table: reported beside reproduced, or below each other where there are many metrics."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from analysis.artefact import NOT_RUN, Cell, Table, Value
from analysis.parts import Line, Metric, Rows
from analysis.stats import Estimate

# Behind a best value: not told apart from the next; told apart by nothing, there being one training seed.
NOT_SEPARATED, ONE_SEED = "†", "‡"


def side_by_side(caption: str, scale: str, lines: Sequence[Line], metrics: Sequence[Metric], rows: Rows) -> Table:
    """A row a line; for each metric the columns reported, reproduced and gap."""
    lead = len(rows.heads)
    table = Table(caption, [*rows.heads], [], left=lead, named=rows.named, spans=[("", lead)])
    at = []
    for metric in metrics:
        at.append(len(table.columns))
        names = ["Reported", f"Reproduced ({scale})", "Gap"][: 3 if metric.ranked else 2]
        forms = [metric.format, metric.format, "+" + metric.format]
        table.formats |= {at[-1] + k: form for k, form in enumerate(forms[: len(names)])}
        table.spans.append((f"{metric.group} {metric.name}".strip(), len(names)))
        table.columns += names
    table.columns.append("Seeds")
    table.spans = [*table.spans, ("", 1)] if len(metrics) > 1 else []
    for line in lines:
        _heading(table, line)
        values: list[Value] = []
        for cell, metric in zip(line.cells, metrics):
            values += [cell.reported, _found(cell), _gap(cell)][: 3 if metric.ranked else 2]
        _mark(table, line, rows)
        table.rows.append([*rows.cells(line.row), *values, _seeds(line.cells)])
        table.cells += line.cells
    for j in (j for j, m in enumerate(metrics) if m.ranked):
        places = range(len(lines))
        _bold(table, lines, j, [(i, at[j] + 1) for i in places], [(i, at[j]) for i in places])
    return table


def wide(caption: str, scale: str, lines: Sequence[Line], metrics: Sequence[Metric], rows: Rows) -> Table:
    """Up to three rows a line: what the paper reports, what this tier reproduces, and the gap."""
    lead = len(rows.heads)
    table = Table(caption, [*rows.heads, "", *(m.name for m in metrics), "Seeds"], [], left=lead + 1, named=rows.named)
    groups = [(group, len(list(same))) for group, same in groupby(m.group for m in metrics)]
    table.spans = [("", lead + 1), *groups, ("", 1)]
    table.formats = {lead + 1 + j: m.format for j, m in enumerate(metrics)}
    published, found = [], []
    for line in lines:
        _heading(table, line)
        _mark(table, line, rows)
        names = rows.cells(line.row)
        tried = any(c.found or c.missing != NOT_RUN for c in line.cells)
        published.append(len(table.rows))
        if any(c.reported for c in line.cells) or not tried:
            table.rows.append([*names, "reported", *(c.reported for c in line.cells), "" if tried else NOT_RUN])
            names = [""] * lead
        found.append(len(table.rows))
        if tried:
            table.rows.append([*names, scale, *map(_found, line.cells), _seeds(line.cells)])
        if any(c.gap is not None for c in line.cells):
            at = len(table.rows)
            table.formats |= {(at, lead + 1 + j): "+" + m.format for j, m in enumerate(metrics)}
            table.rows.append([*[""] * lead, "gap", *map(_gap, line.cells), ""])
        table.cells += line.cells
    for j in (j for j, m in enumerate(metrics) if m.ranked):
        column = lead + 1 + j
        _bold(table, lines, j, [(i, column) for i in found], [(i, column) for i in published])
    return table


def _mark(table: Table, line: Line, rows: Rows) -> None:
    if line.mark:
        table.marks[len(table.rows), rows.named] = line.mark


def _heading(table: Table, line: Line) -> None:
    """Before the first line of a block."""
    name = line.block.name
    if name and name not in table.headings.values():
        table.headings[len(table.rows)] = name
        table.rules.add(len(table.rows))


def _bold(table: Table, lines: Sequence[Line], j: int, found: list[tuple], published: list[tuple]) -> None:
    """Per block, the best reproduced value, with a sign where it is not told apart; and the best reported one."""
    for block in dict.fromkeys(line.block for line in lines):
        here = [k for k, line in enumerate(lines) if line.block == block]
        for places, values in (
            (published, {k: lines[k].cells[j].reported for k in here}),
            (found, {k: lines[k].cells[j].found for k in here}),
        ):
            means = {k: v.mean for k, v in values.items() if v}
            if len(set(means.values())) < 2:  # one value, or all the same: nothing is best
                continue
            top = [k for k, mean in means.items() if mean == max(means.values())]
            table.best |= {places[k] for k in top}
            for k in top if places is found else ():
                separated = lines[k].cells[j].versus.separated
                if not separated:
                    table.marks[places[k]] = ONE_SEED if separated is None else NOT_SEPARATED


def _found(cell: Cell) -> Value:
    if cell.found:
        return cell.found
    return "mixed" if cell.missing.startswith("mixed") else cell.missing


def _gap(cell: Cell) -> Value:
    return None if cell.gap is None else Estimate(cell.gap)


def _seeds(cells: Sequence[Cell]) -> str:
    samples = [c.sample for c in cells if c.sample]
    of_episodes = [s for s in samples if s.tasks] or samples  # a logged metric has no evaluation seeds
    return ", ".join(dict.fromkeys(s.seed_counts for s in of_episodes))
