"""Artefacts as files: each is built from its studies at a tier, and written in every format."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure as Picture
from matplotlib.transforms import Bbox

from analysis.data.runs import Run, StudyRuns
from analysis.data.sources import Source
from analysis.grid.artefact import Artefact
from analysis.grid.table import Figure, Table
from analysis.output.latex import figure_to_latex, to_latex, to_macros
from analysis.output.text import statistics, to_csv, to_markdown
from analysis.plots.hover import to_svg
from analysis.plots.style import GREY

# The same runs give the same bytes.
_METADATA = {"pdf": {"CreationDate": None}, "png": {"Software": None}}
_ROOM = 0.1  # inches below a picture, for the name of its tier


@dataclass
class Built:
    """One artefact of one tier; ``svg`` is its picture, once it is written."""

    label: str
    tier: str
    product: Table | Figure
    studies: list[StudyRuns] = field(default_factory=list)
    svg: str = ""

    @property
    def table(self) -> Table | None:
        """The table, where it is one."""
        return self.product if isinstance(self.product, Table) else None

    @cached_property
    def runs(self) -> list[Run]:
        """The runs that it shows; what is made of settings or of other tables shows all of its studies."""
        runs = {r.id: r for r in self.product.runs or (r for study in self.studies for r in study.runs)}
        return sorted(runs.values(), key=lambda r: (str(r.env), r.model, r.method, r.seed, r.id))

    @property
    def skipped(self) -> list[str]:
        """What was left out of its studies, and why."""
        return sorted({line for study in self.studies for line in (*study.skipped, *study.refused.values())})


def build(item: Artefact, source: Source, tier: str, allow_mixed: bool = False) -> Built:
    """Build an artefact at a tier."""
    loaded = item.load(source, tier, allow_mixed)
    return Built(item.label, tier, item.build(loaded), list(loaded.values()))


def write(built: Iterable[Built], out: Path) -> None:
    """Write ``tables/<label>.<tier>.{tex,md,csv,stats.csv}`` and ``figures/<label>.<tier>.{pdf,png,svg,tex}``.

    A picture has its tier in a corner. Figures are closed.
    """
    for one in built:
        folder, name = out / ("tables" if one.table else "figures"), f"{one.label}.{one.tier}"
        folder.mkdir(parents=True, exist_ok=True)
        if isinstance(one.product, Table):
            texts = _table_texts(one.product, one.label)
        else:
            picture = one.product.figure
            _sign(picture, f"tier {one.tier}" if one.studies else "no runs")
            _settle(picture)
            for kind, metadata in _METADATA.items():
                picture.savefig(folder / f"{name}.{kind}", format=kind, dpi=200, metadata=metadata | {"Title": name})
            one.svg = to_svg(picture, name)
            plt.close(picture)
            texts = {"tex": figure_to_latex(one.product, one.label, f"figures/{name}.pdf"), "svg": one.svg}
        for end, text in texts.items():
            (folder / f"{name}.{end}").write_text(text)


def write_macros(built: Sequence[Built], out: Path) -> None:
    """Write ``macros.<tier>.tex``, of every table of a tier."""
    for tier in {one.tier for one in built}:
        tables = [one.table for one in built if one.table and one.tier == tier]
        (out / f"macros.{tier}.tex").write_text(to_macros(tables))


def _settle(picture: Picture) -> None:
    """Fix the layout, rounded: its solver's last bits differ from process to process, and bytes should not."""
    picture.draw_without_rendering()
    picture.set_layout_engine(None)  # not "none", with which every file is laid out again
    for axis in picture.axes:
        axis.set_position(Bbox.from_bounds(*np.round(axis.get_position().bounds, 6)))


def _sign(picture: Picture, text: str) -> None:
    """Write a text into the corner below a picture, where its layout leaves room for it."""
    if engine := picture.get_layout_engine():
        share = _ROOM / picture.get_figheight()
        engine.set(rect=(0, share, 1, 1 - share))  # pyright: ignore[reportCallIssue] (of constrained layout)
    picture.text(0.998, 0.002, text, ha="right", va="bottom", fontsize=5, color=GREY)


def _table_texts(table: Table, label: str) -> dict[str, str]:
    texts = {"tex": to_latex(table, label), "md": to_markdown(table), "csv": to_csv(table)}
    return texts | ({"stats.csv": statistics(table.entries)} if table.entries else {})
