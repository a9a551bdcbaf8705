"""Rebuild tables, figures and the page from finished runs: ``python -m analysis [LABEL ...] [--tier TIER]``.

With labels only these are built, and the page and the paper's macros stay as they are.
``python -m analysis explain main-results/ALFWorld/All/HGPO/1.5B`` prints what is behind one number.
``python -m analysis plan`` says how many more seeds would decide each undecided claim, and what they cost.
``python -m analysis runs [tier=smoke status=partial ...]`` lists the runs; ``--gc RUN_ID ...`` removes some.
``python -m analysis study NAME [--metric return ...]`` makes a table and curves of any study, your own included.
``python -m analysis curves RUN ... [--metric train/entropy ...]`` draws runs, also while they train.
"""

import argparse
import sys
from pathlib import Path

from analysis.claims.entries import evaluated_claims
from analysis.data.runs import TIERS
from analysis.data.sources import Source, open_source
from analysis.grid.artefact import artefacts
from analysis.output import ledger, page
from analysis.output.build import Built, build, write, write_macros
from analysis.output.curves import draw_curves
from analysis.output.explain import explain
from analysis.output.plan import plan
from analysis.output.study import build_study
from analysis.output.text import to_markdown
from bepo.core.errors import Parser, UserError, choose, exit_code
from bepo.store.find import DEFAULT, existing


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return 0, or 2 after one line that says what is wrong."""
    options = _parser().parse_args(arguments)
    return exit_code(lambda: _run(options))


def _parser() -> Parser:
    form = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog="python -m analysis", description=__doc__, formatter_class=form)
    add = parser.add_argument
    labels = "artefacts (default: all), or: explain ENTRY, plan, runs FILTER ..., study NAME ..., curves RUN ..."
    add("names", nargs="*", metavar="LABEL", help=labels)
    add("--tier", help=f"{', '.join(TIERS)}; default: every tier that has runs; explain: the highest with runs")
    add("--results", type=Path, default=DEFAULT, help="folder of finished runs")
    sources = "local: RESULTS alone; published: paper/runs alone; wandb:ENTITY/PROJECT, kept in RESULTS/wandb"
    add("--source", help=f"{sources} (default: RESULTS and paper/runs together)")
    add("--out", type=Path, default=Path("paper"), help="folder to write to")
    add("--metric", action="append", default=[], help="study, curves: another metric; may be repeated")
    add("--gc", nargs="+", default=[], metavar="RUN_ID", help="runs: remove exactly these first")
    add("--allow-mixed", action="store_true", help="average over method versions, task sets and backends")
    return parser


def _run(options: argparse.Namespace) -> None:
    if options.tier not in (None, *TIERS):
        raise choose("tier", options.tier, TIERS)
    if options.gc and options.names[:1] != ["runs"]:
        raise UserError(f"--gc {' '.join(options.gc)}: goes with `runs`")
    if options.metric and options.names[:1] not in (["study"], ["curves"]):
        raise UserError(f"--metric {options.metric[0]}: goes with `study` and `curves`")
    if options.source in (None, "local"):
        existing(options.results)
    if options.names[:1] == ["curves"]:
        return print(draw_curves(options.names[1:], options.results, options.metric, options.tier))
    source = open_source(options.results, options.source)
    tiers = [options.tier] if options.tier else source.tiers()
    if options.names[:1] == ["runs"]:
        ledger.remove(source.results, options.gc)
        print(ledger.to_text(ledger.filtered(ledger.ledger(source.results), options.names[1:])))
    elif not tiers:
        raise UserError(f"{source.results}: no study has a run yet; try `make reproduce`")
    elif options.names == ["plan"]:
        print(plan(source, tiers[0], options.allow_mixed))
    elif options.names == ["explain"]:
        raise UserError("explain what? An entry, such as main-results/ALFWorld/All/HGPO/1.5B")
    elif options.names[:1] == ["explain"]:
        for path in options.names[1:]:
            print(explain(path, source, tiers, options.allow_mixed))
    elif options.names[:1] == ["study"]:
        _studies(options, source, tiers)
    else:
        _rebuild(options, source, tiers)


def _studies(options: argparse.Namespace, source: Source, tiers: list[str]) -> None:
    """Make the table and the curves of each study that is named, at every tier at which it has runs."""
    if not options.names[1:]:
        raise UserError(f"study of which name? choices: {', '.join(source.studies())}")
    for name in options.names[1:]:
        built = [one for tier in tiers for one in build_study(name, source, tier, options.metric) if one.runs]
        if not built:
            raise UserError(f"study {name}: no complete run yet (python -m analysis runs study={name})")
        write(built, options.out)
        _print(built)
        for one in built:
            kind = ("tables", "md") if one.table else ("figures", "png")
            print(f"{one.tier}: {options.out / kind[0] / f'{one.label}.{one.tier}.{kind[1]}'}")


def _rebuild(options: argparse.Namespace, source: Source, tiers: list[str]) -> None:
    known, labels = artefacts(), options.names
    for label in labels:
        if label not in known:
            raise choose("artefact", label, known)
    every = set(tiers) if labels else {*source.tiers(), *tiers}  # the page shows all tiers
    built = [
        build(known[label], source, tier, options.allow_mixed)
        for tier in sorted(every, key=TIERS.index, reverse=True)
        for label in dict.fromkeys(labels or known)
    ]
    write(built, options.out)
    if labels:
        _print([one for one in built if one.tier in tiers])
    else:
        _print_summary(built)
    print(f"tables:  {options.out / 'tables'}\nfigures: {options.out / 'figures'}")
    if not labels:
        write_macros(built, options.out)
        report = options.out / "report.html"
        claims = {one: evaluated_claims(source, one, options.allow_mixed) for one in source.tiers()}
        report.write_text(page.render(built, source.tiers(), source.label, claims))
        print(f"page:    {report}")


def _print(built: list[Built]) -> None:
    """Print what was left out, and the tables."""
    left_out, unfinished = _left_out(built)
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    if unfinished:
        print(f"left out: {unfinished} runs that are not complete (python -m analysis runs)", file=sys.stderr)
    for one in built:
        if one.table:
            print(f"\n{one.label} (tier {one.tier})\n\n{to_markdown(one.table)}")


def _print_summary(built: list[Built]) -> None:
    """Print a line for each tier with what was made, and one for what was left out."""
    for tier in reversed(TIERS):
        mine = [one for one in built if one.tier == tier]
        runs = {run.id for one in mine for run in one.runs}
        tables = [one for one in mine if one.table]
        if mine:
            shown = f"{sum(map(_has_numbers, tables))} of {len(tables)} tables have numbers"
            print(f"tier {tier}: {len(runs)} runs; {shown}; {len(mine) - len(tables)} figures")
    left_out, unfinished = _left_out(built)
    if left_out or unfinished:
        lines = [*left_out[:1], "..."] if len(left_out) > 1 else left_out
        print(f"left out: {unfinished} runs that are not complete, {len(left_out)} for another reason; LABEL or `runs`")
        print(f"          say more{': ' if lines else ''}{'; '.join(lines)}")


def _has_numbers(one: Built) -> bool:
    return one.table is not None and any(entry.reproduced for entry in one.table.entries)


def _left_out(built: list[Built]) -> tuple[list[str], int]:
    """Return why runs were left out, and how many are only not complete."""
    skipped = sorted({line for one in built for line in one.skipped})
    reasons = [line for line in skipped if not line.endswith("incomplete, there is no run.json")]
    return reasons, len(skipped) - len(reasons)


if __name__ == "__main__":
    sys.exit(main())
