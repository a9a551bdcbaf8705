"""Tables as LaTeX (booktabs), Markdown and CSV."""

from __future__ import annotations

import csv
import io
from math import isnan

from analysis.artefact import Figure, Table, Value
from analysis.stats import Estimate, interval, iqm

_SPECIAL = {c: f"\\{c}" for c in "&%$#_{}"} | {"~": "\\textasciitilde{}", "^": "\\textasciicircum{}"}
_SPECIAL |= {"\\": "\\textbackslash{}", "–": "--"}
_MATHS = {"±": "\\pm", "Δ": "\\Delta", "λ": "\\lambda", "η": "\\eta", "ρ": "\\rho", "γ": "\\gamma", "β": "\\beta"}
_MATHS |= {
    "↓": "\\downarrow",
    "×": "\\times",
    "→": "\\to",
    "≥": "\\geq",
    "≠": "\\neq",
    "†": "^{\\dagger}",
    "‡": "^{\\ddagger}",
}
_MATHS |= {"ᶜ": "^{\\mathrm{c}}", "ʳ": "^{\\mathrm{r}}"}
_SPECIAL |= {c: f"${maths}$" for c, maths in _MATHS.items()}

COLUMN = 4.0  # inches: wider figures take both columns of a page
WIDE = 72  # characters beyond which a table takes both columns of a page


def plain(value: Value, form: str = ".1f") -> str:
    """``72.8 ± 3.6``; a dash for nothing."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    mean = format(value.mean, form)
    return mean if isnan(value.std) else f"{mean} ± {format(value.std, form)}"


def shown(table: Table) -> list[list[str]]:
    """Every cell as plain text, with its marks."""
    return [
        [plain(v, _form(table, i, j)) + table.marks.get((i, j), "") for j, v in enumerate(row)]
        for i, row in enumerate(table.rows)
    ]


def to_latex(table: Table, label: str) -> str:
    if table.widths:
        return _over_pages(table, label)
    columns = len(table.columns)
    wide = _characters(table) > WIDE
    kind = "table*" if wide else "table"
    lines = [
        f"\\begin{{{kind}}}[tp]",
        "\\centering",
        "\\footnotesize" if wide else "\\small",
        *(["\\setlength{\\tabcolsep}{2pt}"] if wide else []),
        "\\begin{adjustbox}{max width=\\linewidth}",
        f"\\begin{{tabular}}{{{_alignment(table)}}}",
        "\\toprule",
        *_heads(table),
        " & ".join(escape(c) for c in table.columns) + " \\\\",
        "\\midrule",
    ]
    for i, row in enumerate(table.rows):
        if i in table.rules and i:
            lines.append("\\midrule")
        if i in table.headings:
            lines.append(f"\\multicolumn{{{columns}}}{{l}}{{\\textit{{{escape(table.headings[i])}}}}} \\\\")
        lines.append(" & ".join(_tex(table, i, j, v) for j, v in enumerate(row)) + " \\\\")
    lines += [
        "\\bottomrule",
        "\\end{tabular}",
        "\\end{adjustbox}",
        *([f"\\par\\smallskip\\parbox{{\\linewidth}}{{\\scriptsize {_notes(table)}}}"] if table.notes else []),
        f"\\caption{{{escape(table.caption)}}}",
        f"\\label{{tab:{label}}}",
        f"\\end{{{kind}}}",
    ]
    return "\n".join(lines) + "\n"


def _alignment(table: Table) -> str:
    """A letter a column, with some space around what stands under a common head."""
    begins = {sum(width for _, width in table.spans[:k]) for k in range(1, len(table.spans))}
    letters = "l" * table.left + "c" * (len(table.columns) - table.left)
    return "".join("@{\\hspace{8pt}}" * (j in begins) + letter for j, letter in enumerate(letters))


def _characters(table: Table) -> int:
    """Of the widest cells of all columns, with the space between."""
    lines = [table.columns, *shown(table)]
    return sum(2 + max(len(line[j]) for line in lines) for j in range(len(table.columns)))


def _over_pages(table: Table, label: str) -> str:
    """A table with columns of running text, as a ``longtable``."""
    ragged = ">{{\\raggedright\\arraybackslash}}p{{{:.2f}\\linewidth}}"
    columns = [ragged.format(table.widths[j]) if j in table.widths else "l" for j in range(len(table.columns))]
    head = [" & ".join(escape(c) for c in table.columns) + " \\\\", "\\midrule"]
    lines = [
        "{\\scriptsize\\setlength{\\tabcolsep}{3pt}",
        f"\\begin{{longtable}}{{{''.join(columns)}}}",
        f"\\caption{{{escape(table.caption)}}}\\label{{tab:{label}}} \\\\",
        "\\toprule",
        *head,
        "\\endfirsthead",
        "\\toprule",
        *head,
        "\\endhead",
        *(" & ".join(_tex(table, i, j, v) for j, v in enumerate(row)) + " \\\\" for i, row in enumerate(table.rows)),
        "\\bottomrule",
        "\\end{longtable}",
        *(f"\\noindent {escape(note)}\\par" for note in table.notes),
        "}",
    ]
    return "\n".join(lines) + "\n"


def figure_to_latex(figure: Figure, label: str, path: str) -> str:
    """The picture with its caption and notes, over both columns of a page where it is wider than one."""
    kind = "figure*" if figure.figure.get_figwidth() > COLUMN else "figure"
    caption = " ".join([figure.caption, *figure.notes])
    lines = [
        f"\\begin{{{kind}}}[tp]",
        "\\centering",
        f"\\includegraphics[max width=\\linewidth]{{{path}}}",
        f"\\caption{{{escape(caption)}}}",
        f"\\label{{fig:{label}}}",
        f"\\end{{{kind}}}",
    ]
    return "\n".join(lines) + "\n"


def to_markdown(table: Table) -> str:
    cells = shown(table)
    for i, j in table.best:
        cells[i][j] = f"**{cells[i][j]}**"
    columns = _full_names(table)
    lines = [columns, ["---"] * len(columns)]
    for i, row in enumerate(cells):
        if i in table.headings:
            lines.append([f"*{table.headings[i]}*", *[""] * (len(columns) - 1)])
        lines.append(row)
    body = "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines)
    return "\n\n".join([table.caption, body, *table.notes]) + "\n"


def to_csv(table: Table) -> str:
    """One column of mean and one of deviation for each column that holds estimates; headings are a column."""
    numeric = [any(isinstance(row[j], Estimate) for row in table.rows) for j in range(len(table.columns))]
    named = [h for c, n in zip(_full_names(table), numeric) for h in ([c, f"{c} std"] if n else [c])]
    rows, heading = [], ""
    for i, row in enumerate(table.rows):
        heading = table.headings.get(i, heading)
        values = [part for value, n in zip(row, numeric) for part in _parts(value, n)]
        rows.append([*([heading] if table.headings else []), *values])
    return _csv([["group", *named] if table.headings else named, *rows])


def statistics(table: Table) -> str:
    """Every number of a table, one a line, with what is beyond its mean and the runs behind it, as CSV."""
    head = "cell reported reported_std found std over seeds iqm low high gap rival difference difference_low "
    head += "difference_high paired_low paired_high improvement p runs"
    rows = [head.split()]
    for cell in table.cells:
        reported, found, versus = cell.reported, cell.found, cell.versus
        row: list[object] = [cell.path, *_parts(reported, True)]
        if found:
            inside = interval(cell.sample)
            row += [*_parts(found, True), found.level, cell.sample.seed_counts]
            row += [*map(_number, (iqm(cell.sample), inside.low, inside.high, cell.gap))]
        else:
            row += [cell.missing, *[""] * 7]
        row += [cell.rival]
        if versus:
            ranges = (versus.interval.low, versus.interval.high, versus.paired.low, versus.paired.high)
            row += map(_number, (versus.difference, *ranges, versus.improvement, versus.p))
        else:
            row += [""] * 7
        rows.append([*row, " ".join(r.id for r in cell.runs)])
    return _csv(rows)


def escape(text: str) -> str:
    return "".join(_SPECIAL.get(c, c) for c in text)


def _heads(table: Table) -> list[str]:
    """A line of heads over several columns, with rules under them."""
    if not any(text for text, _ in table.spans):
        return []
    cells, rules, at = [], [], 1
    for text, width in table.spans:
        cells.append(f"\\multicolumn{{{width}}}{{c}}{{{escape(text)}}}")
        if text:
            rules.append(f"\\cmidrule(lr){{{at}-{at + width - 1}}}")
        at += width
    return [" & ".join(cells) + " \\\\", "".join(rules)]


def _full_names(table: Table) -> list[str]:
    """Column names with the heads over them, for formats that have one line of heads."""
    above = [text for text, width in table.spans for _ in range(width)] or [""] * len(table.columns)
    return [" ".join(p for p in parts if p) for parts in zip(above, table.columns)]


def _notes(table: Table) -> str:
    return " ".join(escape(n) for n in table.notes)


def _form(table: Table, i: int, j: int) -> str:
    return table.formats.get((i, j), table.formats.get(j, ".1f"))


def _tex(table: Table, i: int, j: int, value: Value) -> str:
    mark = escape(table.marks.get((i, j), ""))
    if not isinstance(value, Estimate):
        return ("--" if value is None else escape(value)) + mark
    form = _form(table, i, j)
    body = _maths(value.mean, form) + ("" if isnan(value.std) else f"{{\\pm}}{_maths(value.std, form)}")
    return (f"$\\mathbf{{{body}}}$" if (i, j) in table.best else f"${body}$") + mark


def _maths(value: float, form: str) -> str:
    mantissa, _, exponent = format(value, form).partition("e")
    return f"{mantissa}{{\\times}}10^{{{int(exponent)}}}" if exponent else mantissa


def _parts(value: Value, numeric: bool) -> list[str]:
    if isinstance(value, Estimate):
        return [_number(value.mean), _number(value.std)]
    return ["" if value is None else value, *([""] if numeric else [])]


def _number(value: float | None) -> str:
    return "" if value is None or isnan(value) else f"{value:.6g}"


def _csv(rows: list[list]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()
