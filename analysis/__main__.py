"""``python -m analysis [LABEL ...] [--scale TIER]``: rebuild tables, figures and the page from the run records."""

from __future__ import annotations

import argparse
import base64
import io
import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from jinja2 import Environment, FileSystemLoader

from analysis.artefact import Artefact, Figure, Table, artefacts
from analysis.latex import plain, to_csv, to_latex, to_markdown
from analysis.runs import TIERS, Study, load, scales

# The same records give the same bytes.
_METADATA = {"pdf": {"CreationDate": None}, "png": {"Software": None}}


@dataclass
class Built:
    """One artefact of one tier."""

    label: str
    scale: str
    product: Table | Figure
    study: Study
    png: str = ""

    @property
    def table(self) -> Table | None:
        return self.product if isinstance(self.product, Table) else None

    @property
    def cells(self) -> list[list[str]]:
        return [[plain(v) for v in row] for row in self.product.rows]

    @property
    def caption(self) -> str:
        return self.product.caption

    @property
    def notes(self) -> list[str]:
        return self.product.notes

    @property
    def records(self) -> list:
        return self.study.records

    @property
    def skipped(self) -> list[str]:
        return self.study.skipped


def main(arguments: list[str] | None = None) -> int:
    known = artefacts()
    parser = argparse.ArgumentParser(prog="python -m analysis", description=__doc__)
    parser.add_argument("labels", nargs="*", metavar="LABEL", help=f"default: all of {', '.join(known)}")
    parser.add_argument("--scale", choices=TIERS, help="default: every tier that has runs")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of run records")
    parser.add_argument("--out", type=Path, default=Path("paper"), help="folder to write to")
    options = parser.parse_args(arguments)
    unknown = [label for label in options.labels if label not in known]
    if unknown:
        print(f"error: unknown artefact {unknown[0]!r}; choices: {', '.join(known)}", file=sys.stderr)
        return 2
    tiers = [options.scale] if options.scale else scales(options.results)
    if not tiers:
        print(f"error: {options.results}: no study has a run yet; try `make reproduce`", file=sys.stderr)
        return 2
    try:
        built = [
            _build(item, options.results, tier, options.out)
            for tier in reversed(tiers)
            for label, item in known.items()
            if label in (options.labels or known)
        ]
        page = options.out / "report.html"
        page.write_text(_page(_everything(built, known, options), scales(options.results), options.results))
    except OSError as error:
        print(f"error: {error.filename}: cannot be written ({error.strerror})", file=sys.stderr)
        return 2
    _report(built, page, options.out)
    return 0


def _everything(built: list[Built], known: dict[str, Artefact], options: argparse.Namespace) -> list[Built]:
    """For the page: what was built now, and every other artefact of every tier."""
    done = {(b.label, b.scale): b for b in built}
    return [
        done.get((label, tier)) or _build(item, options.results, tier, options.out)
        for tier in reversed(scales(options.results))
        for label, item in known.items()
    ]


def _build(item: Artefact, results: Path, scale: str, out: Path) -> Built:
    study = load(results, item.study, scale)
    built = Built(item.label, scale, item.build(study), study)
    if isinstance(built.product, Table):
        _write_table(built, out / "tables")
    else:
        _write_figure(built, out / "figures")
    return built


def _write_table(built: Built, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{built.label}.{built.scale}"
    (folder / f"{stem}.tex").write_text(to_latex(built.product, built.label))
    (folder / f"{stem}.md").write_text(to_markdown(built.product))
    (folder / f"{stem}.csv").write_text(to_csv(built.product))


def _write_figure(built: Built, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for kind, metadata in _METADATA.items():
        data = io.BytesIO()
        built.product.figure.savefig(data, format=kind, dpi=200, metadata=metadata)
        (folder / f"{built.label}.{built.scale}.{kind}").write_bytes(data.getvalue())
    built.png = base64.b64encode(data.getvalue()).decode()  # png is the last kind
    plt.close(built.product.figure)


def _page(built: list[Built], tiers: list[str], results: Path) -> str:
    templates = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
    return templates.get_template("page.html").render(items=built, tiers=tiers, results=str(results))


def _report(built: list[Built], page: Path, out: Path) -> None:
    for line in sorted({line for b in built for line in b.skipped}):
        print(f"left out: {line}", file=sys.stderr)
    for b in built:
        if b.table:
            print(f"\n{b.label} (tier {b.scale})\n\n{to_markdown(b.product)}")
    print(f"tables:  {out / 'tables'}\nfigures: {out / 'figures'}\npage:    {page}")


if __name__ == "__main__":
    sys.exit(main())
