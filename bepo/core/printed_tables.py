"""Tables that fit the terminal."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

_PIPE = 200
"""Columns of a table that is not printed on a terminal."""
_WIDEST = 40
"""Columns that a long text gets at least before a less important column is left out."""


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str]], importance: Sequence[str] = ()) -> list[str]:
    """Print a table on standard output, fitted to the terminal, and return the columns that had to be left out.

    ``importance`` names columns, the most important first: those that do not fit are left out. The texts of the others
    are folded.
    """
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=_PIPE)
    shown = _fitting(columns, rows, importance, console.width) if importance else list(columns)
    table = Table(*shown, box=box.SIMPLE_HEAD, pad_edge=False)
    places = [columns.index(name) for name in shown]
    for row in rows:
        table.add_row(*(row[place] for place in places))
    console.print(table)
    return [name for name in columns if name not in shown]


def _fitting(columns: Sequence[str], rows: Sequence[Sequence[str]], importance: Sequence[str], width: int) -> list[str]:
    """Return the most important columns that fit into a width together, in their order."""
    chosen, left = set(), width
    for name in importance:
        place = columns.index(name)
        needed = 2 + min(_WIDEST, max(len(text) for text in (name, *(row[place] for row in rows))))
        if needed <= left:
            chosen.add(name)
            left -= needed
    return [name for name in columns if name in chosen]
