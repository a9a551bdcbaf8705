"""Build artefacts from studies at a tier, and write them in every format."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import matplotlib.pyplot as plt

from analysis.data.runs import Run
from analysis.data.sources import Source
from analysis.data.studies import StudyRuns
from analysis.grid.artefact import Artefact
from analysis.grid.table import Figure, Table
from analysis.output.latex import figure_to_latex, to_latex, to_macros
from analysis.output.pictures import Drawing, write_all
from analysis.output.text import statistics, to_csv, to_markdown


@dataclass
class Built:
    """One artefact at one tier. ``svg`` is its picture after ``write``."""

    label: str
    tier: str
    product: Table | Figure
    studies: list[StudyRuns] = field(default_factory=list)
    svg: str = ""

    @property
    def table(self) -> Table | None:
        """The table; None for a figure."""
        return self.product if isinstance(self.product, Table) else None

    @cached_property
    def runs(self) -> list[Run]:
        """The runs that it shows; by default all runs of its studies."""
        shown = self.product.runs
        runs = {r.id: r for r in ((r for study in self.studies for r in study.runs) if shown is None else shown)}
        return sorted(runs.values(), key=lambda r: (str(r.env), r.model, r.method, r.seed, r.id))

    @property
    def skipped(self) -> list[str]:
        """The runs that were left out of its studies, and why."""
        return sorted({line for study in self.studies for line in (*study.skipped, *study.refused.values())})


def build(item: Artefact, source: Source, tier: str, allow_mixed: bool = False) -> Built:
    """Build an artefact at a tier."""
    loaded, product = item.make(source, tier, allow_mixed)
    return Built(item.label, tier, product, list(loaded.values()))


def make_folders(out: Path) -> None:
    """Make the folders that ``write`` fills: a path that cannot be written is named before minutes of work."""
    for name in ("tables", "figures"):
        (out / name).mkdir(parents=True, exist_ok=True)


def write(built: Iterable[Built], out: Path) -> None:
    """Write ``tables/<label>.<tier>.{tex,md,csv,stats.csv}`` and ``figures/<label>.<tier>.{pdf,png,svg,tex}``.

    The tier is printed in a corner of each picture, or its origin. Figures are closed.
    """
    make_folders(out)
    drawn, drawings = [], []
    for one in built:
        folder, name = out / ("tables" if one.table else "figures"), f"{one.label}.{one.tier}"
        if isinstance(one.product, Table):
            texts = _table_texts(one.product, one.label)
        else:
            corner = f"tier {one.tier}" if one.studies else one.product.origin
            drawn.append(one)
            drawings.append(Drawing(one.product.figure, folder / name, corner))
            texts = {"tex": figure_to_latex(one.product, one.label, f"figures/{name}.pdf")}
        for end, text in texts.items():
            (folder / f"{name}.{end}").write_text(text, encoding="utf-8")
    for one, drawing, svg in zip(drawn, drawings, write_all(drawings)):
        one.svg = svg
        plt.close(drawing.picture)


def write_macros(built: Sequence[Built], out: Path) -> None:
    """Write ``macros.<tier>.tex`` from all tables of each tier."""
    for tier in {one.tier for one in built}:
        tables = [one.table for one in built if one.table and one.tier == tier]
        (out / f"macros.{tier}.tex").write_text(to_macros(tables), encoding="utf-8")


def _table_texts(table: Table, label: str) -> dict[str, str]:
    texts = {"tex": to_latex(table, label), "md": to_markdown(table), "csv": to_csv(table)}
    return texts | ({"stats.csv": statistics(table.entries)} if table.entries else {})
