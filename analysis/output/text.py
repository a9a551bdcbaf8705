"""Tables as Markdown and CSV."""

from collections.abc import Iterable
from math import isnan

import pandas as pd

from analysis.contrast import NO_INTERVAL
from analysis.data.statistics import Estimate, bootstrap
from analysis.grid.maths import plain
from analysis.grid.table import Entry, Table


def to_markdown(table: Table) -> str:
    """Return caption, table and notes."""
    rows = [table.names, ["---"] * len(table.names)]
    for heading, values in table.lines:
        rows += [[f"*{heading}*", *[""] * (len(values) - 1)]] if heading else []
        rows.append([f"**{value.text}**" if value.bold else value.text for value in values])
    body = "\n".join("| " + " | ".join(text.replace("|", "\\|") for text in row) + " |" for row in rows)
    return plain("\n\n".join([table.caption, body, *table.notes])) + "\n"


def to_csv(table: Table) -> str:
    """Return CSV: a column of headings, and for each column of estimates one of means and one of deviations."""
    columns = [pd.DataFrame({"group": table.headings})] if any(table.headings) else []
    for j, name in enumerate(table.names):
        values = [row[j].value for row in table.rows]
        parts = pd.DataFrame(map(_parts, values), columns=pd.Index([name, f"{name} std"]))
        columns.append(parts.iloc[:, : 1 + any(isinstance(value, Estimate) for value in values)])
    return pd.concat(columns, axis="columns").to_csv(index=False, lineterminator="\n")


def statistics(entries: Iterable[Entry]) -> str:
    """Return every number of a table as CSV, one per row, with its intervals, comparisons and runs."""
    table = pd.DataFrame(map(_statistics, entries))
    return table.to_csv(index=False, lineterminator="\n", float_format="%.6g")


def _statistics(entry: Entry) -> dict[str, str | float | None]:
    mean, over, seeds, versus = NO_INTERVAL, "", "", entry.versus
    if reproduced := entry.reproduced:
        mean, over, seeds = bootstrap(reproduced.sample), reproduced.level, reproduced.sample.seed_counts
    line = dict(zip(("entry", "reported", "reported_std"), (entry.path, *_parts(entry.reported))))
    line |= dict(zip(("reproduced", "std"), _parts(reproduced or entry.missing)))
    line |= {"over": over, "seeds": seeds, "low": mean.low, "high": mean.high, "gap": entry.gap}
    line |= {"rival": entry.rival, "difference": versus.difference}
    line |= {"difference_low": versus.interval.low, "difference_high": versus.interval.high}
    line |= {"paired_low": versus.paired.low, "paired_high": versus.paired.high}
    line |= {"improvement_low": versus.chance.low, "improvement_high": versus.chance.high}
    return line | {"improvement": versus.improvement, "p": versus.p, "runs": " ".join(run.id for run in entry.runs)}


def _parts(value: Estimate | str | None) -> tuple[str, str]:
    """Return mean and deviation, or a text and an empty text."""
    if isinstance(value, Estimate):
        return f"{value.mean:.6g}", "" if isnan(value.std) else f"{value.std:.6g}"
    return value or "", ""
