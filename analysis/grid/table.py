"""Tables and figures, and the entries of tables with the runs behind them."""

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from itertools import groupby
from math import isnan
from typing import TYPE_CHECKING

from analysis.data.methods import RECONSTRUCTION, is_privileged
from analysis.data.reported import EntryKey
from analysis.data.runs import Run
from analysis.data.statistics import Difference, Estimate, Reproduced
from analysis.grid.maths import plain

if TYPE_CHECKING:  # tables need no matplotlib, which takes half a second to import
    from matplotlib.figure import Figure as Picture

NOT_RUN = "not run"
NEEDS_WORDS = "does not apply to models without language"  # of prompting methods
NOT_MEASURED = "none"  # there are runs, but without this task kind or metric
Value = Estimate | str | None
Head = str | tuple[str, str]
# Signs after a best value: not separated from the second best; one training seed, so never separated.
NOT_SEPARATED, ONE_SEED = "†", "‡"


@dataclass(frozen=True)
class Printed:
    """A value as a table prints it: number format, a sign after it that a note explains, and bold or not."""

    value: Value
    form: str = ".1f"
    mark: str = ""
    bold: bool = False

    @property
    def text(self) -> str:
        """The value as plain text with its sign, such as ``72.8 ± 3.6†``; a dash for None."""
        if not isinstance(self.value, Estimate):
            return ("–" if self.value is None else plain(self.value)) + self.mark
        numbers = [value for value in (self.value.mean, self.value.std) if not isnan(value)]
        return " ± ".join(format(number, self.form) for number in numbers) + self.mark


@dataclass
class Entry:
    """One number of a table and everything behind it.

    ``path``: its name (``main-results/ALFWorld/All/HGPO/1.5B``). ``missing``: why the reproduced number is missing,
    such as ``not run``. ``episodes``: the column and the kind of the averaged test episodes (empty kind: all); None
    for a logged number. ``versus``: the comparison with the best other method of its column and block, whose path is
    ``rival`` (may be empty). ``best_reported``, ``best_reproduced``: whether the mean is the highest of all methods,
    and not all are equal.
    """

    path: str
    key: EntryKey = ("", "", "", "")
    reported: Estimate | None = None
    reproduced: Reproduced | None = None
    missing: str = ""
    episodes: tuple[str, str] | None = None
    runs: list[Run] = field(default_factory=list)
    rival: str = ""
    versus: Difference = field(default_factory=Difference)
    best_reported: bool = False
    best_reproduced: bool = False

    @property
    def gap(self) -> float | None:
        """The reproduced mean minus the reported one, in points."""
        return self.reproduced.mean - self.reported.mean if self.reproduced and self.reported else None

    @property
    def same_models(self) -> bool:
        """Whether its runs trained the paper's models, so that a gap says something."""
        return all(run.tier == "paper" for run in self.runs)

    @property
    def of_privileged(self) -> bool:
        """Whether it has privileged information, so that it is not ranked with the methods."""
        return any(is_privileged(run.method) for run in self.runs)

    @property
    def refused(self) -> bool:
        """Whether its runs must not be averaged."""
        return self.missing.startswith("mixed")

    def printed(self, form: str) -> tuple[Printed, Printed, Printed]:
        """Return the cells of a table: reported, reproduced and gap, with numbers in this format."""
        mark = ""
        if self.best_reproduced and not self.versus.separated:
            mark = ONE_SEED if self.versus.separated is None else NOT_SEPARATED
        reproduced = self.reproduced or ("mixed" if self.refused else self.missing)
        gap = None if self.gap is None or not self.same_models else Estimate(self.gap)
        reported = Printed(self.reported, form, bold=self.best_reported)
        return reported, Printed(reproduced, form, mark, self.best_reproduced), Printed(gap, "+" + form)


@dataclass
class Table:
    """A table. ``heads`` has a name for each column, or a pair of a common head and a name.

    Texts may have mathematics between dollar signs (``analysis/grid/maths.py``).

    ``headings``: the block of each row. ``left``: how many columns are left-aligned text. ``named``: the column with
    the names of rows. ``widths``: columns of running text, with their shares of the line; such a table may be longer
    than a page, unless it is ``short``. ``entries``: the numbers with their runs. ``methods``: the method of each row,
    which may be empty. ``facts``: numbers for the paper's running text. ``used``: the runs that a table without entries
    shows; None for all runs of its studies. A note explains ʳ where it occurs.
    """

    caption: str
    heads: InitVar[Sequence[Head]]
    values: InitVar[Sequence[Sequence[Printed | Value]]]
    notes: list[str] = field(default_factory=list)
    headings: list[str] = field(default_factory=list)
    left: int = 1
    named: int = 0
    widths: dict[int, float] = field(default_factory=dict)
    short: bool = False
    entries: list[Entry] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    methods: list[str] = field(default_factory=list)
    used: list[Run] | None = None
    columns: list[tuple[str, str]] = field(init=False)
    rows: list[list[Printed]] = field(init=False)

    def __post_init__(self, heads: Sequence[Head], values: Sequence[Sequence[Printed | Value]]) -> None:
        self.columns = [head if isinstance(head, tuple) else ("", head) for head in heads]
        self.rows = [[value if isinstance(value, Printed) else Printed(value) for value in row] for row in values]
        if any("ʳ" in text for text in (*self.names, *(cell.text for row in self.rows for cell in row))):
            self.notes = [*self.notes, RECONSTRUCTION]

    @property
    def names(self) -> list[str]:
        """The names of the columns, including common heads."""
        return [plain(" ".join(part for part in column if part)) for column in self.columns]

    @property
    def spans(self) -> list[tuple[str, list[int]]]:
        """The common heads from the left, each with the indices of its columns."""
        places = range(len(self.columns))
        return [(head, list(same)) for head, same in groupby(places, key=lambda j: self.columns[j][0])]

    @property
    def lines(self) -> list[tuple[str, list[Printed]]]:
        """The rows, each with the heading above it; empty if the block continues."""
        begins = [b if a != b else "" for a, b in zip(["", *self.headings], self.headings)] or [""] * len(self.rows)
        return list(zip(begins, self.rows, strict=True))

    @property
    def runs(self) -> list[Run] | None:
        """The runs behind its numbers; None for all runs of its studies."""
        return [run for entry in self.entries for run in entry.runs] if self.entries else self.used


@dataclass
class Figure:
    """A picture and the runs that it shows; None: all runs of its studies, or it shows settings.

    ``origin``: what its corner says if it shows no study.
    """

    caption: str
    figure: "Picture"
    runs: list[Run] | None = None
    notes: list[str] = field(default_factory=list)
    origin: str = "no runs"
