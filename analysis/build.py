"""Artefacts as files: each is built from its studies at a tier, and written in every format."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from analysis.artefact import Artefact, Figure, Table
from analysis.latex import figure_to_latex, shown, statistics, to_csv, to_latex, to_markdown
from analysis.macros import to_macros
from analysis.runs import Run, Study
from analysis.sources import Source

# The same records give the same bytes.
_METADATA = {"pdf": {"CreationDate": None}, "png": {"Software": None}}


@dataclass
class Built:
    """One artefact of one tier."""

    label: str
    scale: str
    product: Table | Figure
    studies: list[Study] = field(default_factory=list)
    png: str = ""

    @property
    def table(self) -> Table | None:
        return self.product if isinstance(self.product, Table) else None

    @property
    def caption(self) -> str:
        return self.product.caption

    @property
    def notes(self) -> list[str]:
        return self.product.notes

    @cached_property
    def shown(self) -> list[list[str]]:
        return shown(self.product)

    @cached_property
    def records(self) -> list[Run]:
        """Those shown; what is made of settings or other tables shows all of its studies."""
        shown = [r for c in self.table.cells for r in c.runs] if self.table else self.product.runs
        found = {r.id: r for r in shown or (r for s in self.studies for r in s.records)}
        return sorted(found.values(), key=lambda r: (str(r.env), r.model, r.method, r.seed, r.id))

    @property
    def skipped(self) -> list[str]:
        return sorted({line for s in self.studies for line in (*s.skipped, *s.refused.values())})


def build(item: Artefact, source: Source, scale: str, allow_mixed: bool = False) -> Built:
    loaded = item.load(source, scale, allow_mixed)
    product = item.build(loaded)
    return Built(item.label, scale, product, [loaded] if item.one else list(loaded.values()))


def write(built: Iterable[Built], out: Path) -> None:
    """``tables/<label>.<tier>.{tex,md,csv,stats.csv}`` and ``figures/<label>.<tier>.{pdf,png,tex}``. Figures are
    closed."""
    for one in built:
        if one.table:
            _write_table(one, out / "tables")
        else:
            _write_figure(one, out / "figures")


def write_macros(built: Sequence[Built], out: Path) -> None:
    """``macros.<tier>.tex``, of every table of a tier."""
    for scale in {one.scale for one in built}:
        tables = [one.table for one in built if one.table and one.scale == scale]
        (out / f"macros.{scale}.tex").write_text(to_macros(tables))


def _write_table(built: Built, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{built.label}.{built.scale}"
    (folder / f"{stem}.tex").write_text(to_latex(built.product, built.label))
    (folder / f"{stem}.md").write_text(to_markdown(built.product))
    (folder / f"{stem}.csv").write_text(to_csv(built.product))
    if built.product.cells:
        (folder / f"{stem}.stats.csv").write_text(statistics(built.product))


def _write_figure(built: Built, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for kind, metadata in _METADATA.items():
        data = io.BytesIO()
        built.product.figure.savefig(data, format=kind, dpi=200, metadata=metadata)
        (folder / f"{built.label}.{built.scale}.{kind}").write_bytes(data.getvalue())
    stem = f"{built.label}.{built.scale}"
    (folder / f"{stem}.tex").write_text(figure_to_latex(built.product, built.label, f"figures/{stem}.pdf"))
    built.png = base64.b64encode(data.getvalue()).decode()  # png is the last kind
    plt.close(built.product.figure)
