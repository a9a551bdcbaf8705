"""Tables as LaTeX (booktabs), Markdown and CSV."""

from __future__ import annotations

import csv
import io
from math import isnan

from analysis.artefact import Table, Value
from analysis.stats import Estimate

_SPECIAL = {c: f"\\{c}" for c in "&%$#_{}"} | {"~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "±": "$\\pm$"}


def plain(value: Value) -> str:
    """``72.8 ± 3.6``; a dash for nothing."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    return f"{value.mean:.1f}" if isnan(value.std) else f"{value.mean:.1f} ± {value.std:.1f}"


def to_latex(table: Table, label: str) -> str:
    lines = [
        "\\begin{table}[t]",
        "\\centering",
        "\\small",
        f"\\begin{{tabular}}{{{'l' * 2}{'c' * (len(table.columns) - 2)}}}",
        "\\toprule",
        " & ".join(escape(c) for c in table.columns) + " \\\\",
        "\\midrule",
    ]
    for i, row in enumerate(table.rows):
        if i in table.rules and i:
            lines.append("\\midrule")
        lines.append(" & ".join(_tex(v, (i, j) in table.best) for j, v in enumerate(row)) + " \\\\")
    note = " ".join(table.notes)
    lines += [
        "\\bottomrule",
        "\\end{tabular}",
        f"\\caption{{{escape(table.caption)} {escape(note)}}}",
        f"\\label{{tab:{label}}}",
        "\\end{table}",
    ]
    return "\n".join(lines) + "\n"


def to_markdown(table: Table) -> str:
    def cell(i: int, j: int, value: Value) -> str:
        return f"**{plain(value)}**" if (i, j) in table.best else plain(value)

    rows = [[cell(i, j, v) for j, v in enumerate(row)] for i, row in enumerate(table.rows)]
    lines = [table.columns, ["---"] * len(table.columns), *rows]
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return "\n\n".join([table.caption, body, *table.notes]) + "\n"


def to_csv(table: Table) -> str:
    """One column of mean and one of deviation for each column that holds estimates."""
    numeric = [any(isinstance(row[j], Estimate) for row in table.rows) for j in range(len(table.columns))]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([h for c, n in zip(table.columns, numeric) for h in ([c, f"{c} std"] if n else [c])])
    for row in table.rows:
        writer.writerow([part for value, n in zip(row, numeric) for part in _parts(value, n)])
    return out.getvalue()


def escape(text: str) -> str:
    return "".join(_SPECIAL.get(c, c) for c in text)


def _tex(value: Value, bold: bool) -> str:
    if not isinstance(value, Estimate):
        return "--" if value is None else escape(value)
    body = f"{value.mean:.1f}" if isnan(value.std) else f"{value.mean:.1f}{{\\pm}}{value.std:.1f}"
    return f"$\\mathbf{{{body}}}$" if bold else f"${body}$"


def _parts(value: Value, numeric: bool) -> list[str]:
    if isinstance(value, Estimate):
        return [f"{value.mean:.4f}", "" if isnan(value.std) else f"{value.std:.4f}"]
    return ["" if value is None else value, *([""] if numeric else [])]
