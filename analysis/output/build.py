"""Build artefacts from studies at a tier, and write them in every format."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import matplotlib.pyplot as plt

from analysis.data.cache import has, load, save
from analysis.data.runs import Run
from analysis.data.sources import Source, State, state_of
from analysis.data.studies import StudyRuns
from analysis.grid.artefact import Artefact
from analysis.grid.table import Figure, Table
from analysis.output.latex import figure_to_latex, to_latex, to_macros
from analysis.output.pictures import write_picture
from analysis.output.text import statistics, to_csv, to_markdown
from bepo.core.errors import told
from bepo.core.forks import map_in_forks


@dataclass
class Built:
    """One artefact at one tier. After ``write``, ``svg`` is its picture and ``width`` that of the picture in inches.

    ``key``: what a picture is kept under, with the folder it is in; empty for a table.
    """

    label: str
    tier: str
    product: Table | Figure
    studies: list[StudyRuns] = field(default_factory=list)
    svg: str = ""
    width: float = 0.0
    key: tuple[object, ...] = ()

    @property
    def table(self) -> Table | None:
        """The table; None for a figure."""
        return self.product if isinstance(self.product, Table) else None

    @property
    def title(self) -> str:
        """Its label and tier."""
        return f"{self.label} (tier {self.tier})"

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


@dataclass
class LeftOut:
    """What could not be made, and why. Each line is printed at once; everything else is made."""

    problems: list[BaseException] = field(default_factory=list)

    @contextmanager
    def of(self, what: str) -> Iterator[None]:
        """Leave out what an error within the ``with`` block keeps from being made."""
        try:
            yield
        except (Exception, SystemExit) as error:  # any type: the code of any artefact, also of a plug-in
            self.add(what, error)

    def add(self, what: str, error: BaseException) -> None:
        """Note and print an error."""
        self.problems.append(error)
        print(f"left out: {what}: {told(error)}", file=sys.stderr)


def build(item: Artefact, source: Source, tier: str, allow_mixed: bool = False, out: Path | None = None) -> Built:
    """Build an artefact at a tier; a picture is not drawn again if ``out`` has it as it was made of the same."""
    key: tuple[object, ...] = ()
    if out and item.kind == "figure":
        key = (*item.key(source, tier, allow_mixed), out.resolve())
        kept = load(source, *key)
        if kept and kept[1] == _state(kept[0], out):
            return kept[0]
    loaded, product = item.make(source, tier, allow_mixed)
    return Built(item.label, tier, product, list(loaded.values()), key=key)


def _state(item: Built, out: Path) -> State:
    return state_of((out / "figures").glob(f"{item.label}.{item.tier}.*"))


def _keep(item: Built, out: Path) -> None:
    """Keep a picture that was drawn, without matplotlib's objects."""
    drawn = replace(item, product=replace(item.product, figure=None))  # pyright: ignore
    save((drawn, _state(item, out)), *item.key)


def make_folders(out: Path) -> None:
    """Make the folders that ``write`` fills: a path that cannot be written is named before minutes of work."""
    for name in ("tables", "figures"):
        (out / name).mkdir(parents=True, exist_ok=True)


def prepare(items: Sequence[tuple[Artefact, str]], source: Source, allow_mixed: bool, out: Path) -> None:
    """Build the artefacts that are not kept at their tiers, and draw the figures, on all cores.

    ``build`` then takes them from the cache. An error is left to ``build``, which meets it again.
    """

    def is_kept(wanted: tuple[Artefact, str]) -> bool:
        item, tier = wanted
        place = [out.resolve()] if item.kind == "figure" else []
        with suppress(Exception, SystemExit):
            return has(*item.key(source, tier, allow_mixed), *place)
        return False

    def keep(wanted: tuple[Artefact, str]) -> None:
        item, tier = wanted
        with suppress(Exception, SystemExit):  # any type: the code of any artefact, also of a plug-in
            built = build(item, source, tier, allow_mixed, out)
            if not built.table:
                _write(built, out)

    missing = [wanted for wanted in items if not is_kept(wanted)]
    for item, tier in missing:  # runs are read once, not in every fork
        with suppress(Exception, SystemExit):
            item.load(source, tier, allow_mixed)
    map_in_forks(keep, missing)


def write(built: Iterable[Built], out: Path, left_out: LeftOut) -> list[Built]:
    """Write ``tables/<label>.<tier>.{tex,md,csv,stats.csv}`` and ``figures/<label>.<tier>.{pdf,png,svg,tex}``.

    The tier is printed in a corner of each picture, or its origin. Figures are closed. Returns what was written. Raises
    ``OSError`` if a file cannot be written.
    """
    make_folders(out)
    written = []
    for item in built:
        try:
            _write(item, out)
        except OSError:
            raise
        except (Exception, SystemExit) as error:  # any type: matplotlib draws what any artefact has made
            left_out.add(item.title, error)
        else:
            written.append(item)
    return written


def _write(item: Built, out: Path) -> None:
    if item.svg:  # drawn by an earlier analysis
        return
    path, product = out / ("tables" if item.table else "figures") / f"{item.label}.{item.tier}", item.product
    texts = {end: text.encode() for end, text in _texts(item).items()}
    for end, text in texts.items():
        Path(f"{path}.{end}").write_bytes(text)
    if isinstance(product, Figure):
        try:
            corner = f"tier {item.tier}" if item.studies else product.origin
            item.svg, item.width = write_picture(product.figure, path, corner), product.figure.get_figwidth()
        finally:
            plt.close(product.figure)
        if item.key:
            _keep(item, out)


def write_macros(built: Sequence[Built], out: Path) -> None:
    """Write ``macros.<tier>.tex`` from all tables of each tier."""
    for tier in {item.tier for item in built}:
        tables = [item.table for item in built if item.table and item.tier == tier]
        (out / f"macros.{tier}.tex").write_text(to_macros(tables), encoding="utf-8")


def _texts(item: Built) -> dict[str, str]:
    """Return the texts of a table or figure by the suffix of their files."""
    if isinstance(item.product, Figure):
        return {"tex": figure_to_latex(item.product, item.label, f"figures/{item.label}.{item.tier}.pdf")}
    table, label = item.product, item.label
    texts = {"tex": to_latex(table, label), "md": to_markdown(table), "csv": to_csv(table)}
    return texts | ({"stats.csv": statistics(table.entries)} if table.entries else {})
