"""Rebuild tables, figures and the page from the run records: ``python -m analysis [LABEL ...] [--scale TIER]``.

With labels only these are built, and the page and the paper's macros stay as they are.
``python -m analysis explain main-results/ALFWorld/All/HGPO/1.5B`` prints what is behind one number.
``python -m analysis runs [tier=smoke status=partial ...]`` lists the runs; ``--gc RUN_ID ...`` removes some.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from analysis import ledger, page
from analysis.artefact import artefacts
from analysis.build import Built, build, write, write_macros
from analysis.explain import explain
from analysis.latex import to_markdown
from analysis.runs import TIERS
from analysis.sources import Source, opened
from bepo.errors import UserError, choose


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        if options.scale not in (None, *TIERS):
            raise choose("scale", options.scale, TIERS)
        if options.gc and options.names[:1] != ["runs"]:
            raise UserError(f"--gc {' '.join(options.gc)}: goes with `runs`")
        source = opened(options.results, options.source)
        if options.names[:1] == ["runs"]:
            ledger.remove(source.results, options.gc)
            print(ledger.shown(ledger.chosen(ledger.ledger(source.results), options.names[1:])))
            return 0
        tiers = [options.scale] if options.scale else source.scales()
        if not tiers:
            raise UserError(f"{source.results}: no study has a run yet; try `make reproduce`")
        if options.names[:1] == ["explain"]:
            if not options.names[1:]:
                raise UserError("explain what? A cell, such as main-results/ALFWorld/All/HGPO/1.5B")
            for path in options.names[1:]:
                print(explain(path, source, tiers, options.allow_mixed))
        else:
            _rebuild(options, source, tiers)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader has seen enough: `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        print(f"error: {error.filename}: cannot be written ({error.strerror})", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m analysis", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", metavar="LABEL", help="artefacts (default: all), or: explain CELL ..., or: runs FILTER ..."
    )
    parser.add_argument(
        "--scale",
        metavar="TIER",
        help=f"{', '.join(TIERS)}; default: every tier that has runs; explain: the highest with runs",
    )
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of run records")
    parser.add_argument(
        "--source", metavar="wandb:ENTITY/PROJECT", help="records of a W&B project, kept in RESULTS/wandb"
    )
    parser.add_argument("--out", type=Path, default=Path("paper"), help="folder to write to")
    parser.add_argument("--gc", nargs="+", default=[], metavar="RUN_ID", help="runs: remove exactly these first")
    parser.add_argument("--allow-mixed", action="store_true", help="average over method versions, panels and backends")
    return parser


def _rebuild(options: argparse.Namespace, source: Source, tiers: list[str]) -> None:
    known = artefacts()
    unknown = [label for label in options.names if label not in known]
    if unknown:
        raise choose("artefact", unknown[0], known)
    wanted = {label: known[label] for label in options.names} or known
    every = set(tiers) if options.names else {*source.scales(), *tiers}  # the page shows all tiers
    built = [
        build(item, source, tier, options.allow_mixed)
        for tier in sorted(every, key=TIERS.index, reverse=True)
        for item in wanted.values()
    ]
    write(built, options.out)
    _print([b for b in built if b.scale in tiers], named=bool(options.names))
    print(f"tables:  {options.out / 'tables'}\nfigures: {options.out / 'figures'}")
    if not options.names:
        write_macros(built, options.out)
        report = options.out / "report.html"
        report.write_text(page.render(built, source.scales(), options.source or str(options.results)))
        print(f"page:    {report}")


def _print(built: list[Built], named: bool) -> None:
    """What was left out, and the tables: those that were asked for, or else those that have a number."""
    for line in sorted({line for b in built for line in b.skipped}):
        print(f"left out: {line}", file=sys.stderr)
    for b in built:
        if b.table and (named or any(c.found for c in b.table.cells)):
            print(f"\n{b.label} (tier {b.scale})\n\n{to_markdown(b.product)}")


if __name__ == "__main__":
    sys.exit(main())
