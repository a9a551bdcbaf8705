"""Rebuild tables, figures and the page from finished runs: ``python -m analysis [LABEL ...] [--tier TIER]``.

With labels only these are built, and the page and the paper's macros stay as they are.
``python -m analysis explain main-results/ALFWorld/All/HGPO/1.5B`` prints what is behind one number.
``python -m analysis results`` writes docs/results.md from the published runs.
``python -m analysis plan`` says how many more seeds would decide each undecided claim, and what they cost.
``python -m analysis runs [tier=smoke status=partial ...]`` lists the runs; ``--gc RUN_ID ...`` removes some instead.
``python -m analysis study NAME [--metric return ...]`` makes a table and curves of any study, your own included.
``python -m analysis curves RUN ... [--metric train/entropy ...]`` draws runs, also while they train.
"""

import argparse
import os
import sys
from pathlib import Path

from analysis.data.sources import open_source
from bepo.core.errors import Parser, UserError, choose, exit_code, path_of
from bepo.runs.config import TIERS
from bepo.store.files import check_regular
from bepo.store.find import DEFAULT, existing, views

_MOST_SEEDS = 10_000


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return 0, or 2 after one line that says what is wrong."""
    options = _parser().parse_args(arguments)
    return exit_code(lambda: _run(options))


def _check_matplotlib() -> None:
    """Raise ``UserError`` if matplotlib cannot be imported with what the environment says."""
    settings = Path(os.environ.get("MATPLOTLIBRC", ""))
    try:
        if settings.exists() and not settings.is_dir():
            check_regular(settings, "file of settings")
        import matplotlib  # noqa: F401
    except (ValueError, OSError) as error:
        said = [f"{name}={os.environ[name]}" for name in ("MPLBACKEND", "MATPLOTLIBRC") if os.environ.get(name)]
        raise UserError(f"{' '.join(said)}: matplotlib cannot start with this, unset it ({error})") from None


def _parser() -> Parser:
    form = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog="python -m analysis", description=__doc__, formatter_class=form)
    add = parser.add_argument
    labels = "artefacts (default: all), or: explain ENTRY, plan, runs FILTER ..., study NAME ..., curves RUN ..."
    add("names", nargs="*", metavar="LABEL", help=labels)
    add("--tier", help=f"{', '.join(TIERS)}; default: every tier that has runs (explain, plan: the highest)")
    add("--results", type=path_of, default=DEFAULT, help="folder of finished runs")
    sources = "local: RESULTS alone; published: paper/runs alone; wandb:ENTITY/PROJECT, kept in RESULTS/wandb"
    add("--source", help=f"{sources} (default: RESULTS and paper/runs together)")
    add("--out", type=path_of, help="folder to write to (default: paper; curves and --seeds: RESULTS/views)")
    add(
        "--seeds", type=_seeds, default=(), metavar="8-11", help="count runs of these training seeds only (8,9 or 8-11)"
    )
    add("--metric", action="append", default=[], help="study, curves: another metric; may be repeated")
    add("--gc", nargs="+", default=[], metavar="RUN_ID", help="runs: remove exactly these")
    add("--allow-mixed", action="store_true", help="average over method versions, task sets and backends")
    return parser


def _seeds(text: str) -> list[int]:
    """Return the training seeds that ``8,9`` or ``8-11`` names."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        ends = (first, last or first)
        if not all(map(str.isdecimal, ends)) or not int(ends[0]) <= int(ends[1]) < int(ends[0]) + _MOST_SEEDS:
            raise argparse.ArgumentTypeError(f"{text!r:.60}: training seeds are written 8,9 or 8-11")
        seeds += range(int(ends[0]), int(ends[1]) + 1)
    return seeds


def _run(options: argparse.Namespace) -> None:
    if options.tier not in (None, *TIERS):
        raise choose("tier", options.tier, TIERS)
    if options.gc and options.names[:1] != ["runs"]:
        raise UserError(f"--gc {' '.join(options.gc)}: goes with `runs`")
    if options.metric and options.names[:1] not in (["study"], ["curves"]):
        raise UserError(f"--metric {options.metric[0]}: goes with `study` and `curves`")
    if options.seeds and options.names[:1] in (["runs"], ["curves"]):
        raise UserError(
            f"--seeds: goes with tables, figures, claims and plan; `{options.names[0]}` takes runs themselves"
        )
    if options.source in (None, "local"):
        existing(options.results)
    if options.names[:1] != ["runs"]:
        _check_matplotlib()
    command, names = (options.names[0], options.names[1:]) if options.names else ("", [])
    # Statistics, plots and algebra take seconds to import: each command imports what it needs.
    if command == "runs":
        from analysis.output import ledger

        source = open_source(options.results, options.source)
        if options.gc:
            if names:
                raise UserError(f"{' '.join(names)}: --gc removes the runs that it names, and takes no filter")
            ledger.remove(source.results, options.gc)
            print(f"removed {' '.join(dict.fromkeys(options.gc))}")
            return
        table = ledger.ledger(source.results, source.published.values())
        found = ledger.filtered(table, names)
        print(ledger.values_instead(table, names) if found.empty and len(table) else ledger.to_text(found))
    elif command == "curves":
        from analysis.output.curves import draw_curves

        print(draw_curves(names, options.results, options.metric, options.tier, options.out))
    else:
        _build(command, names, options)


def _build(command: str, names: list[str], options: argparse.Namespace) -> None:
    from analysis.output.explain import explain
    from analysis.output.plan import plan
    from analysis.output.rebuild import rebuild, rebuild_studies
    from analysis.output.results import PAGE, results

    source = open_source(options.results, options.source, options.seeds)
    out = options.out or (views(options.results) if options.seeds else Path("paper"))
    tiers = [options.tier] if options.tier else source.tiers()
    if not tiers:
        raise UserError(f"{source.results}: no study has a run yet; try `make reproduce`")
    if command == "plan":
        if names:
            raise UserError(f"plan {' '.join(names)}: takes no names; --tier chooses")
        print(plan(source, tiers[-1], options.allow_mixed))
    elif command == "results":
        page = (options.out or PAGE.parent) / PAGE.name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(results(open_source(options.results, "published"), options.tier or "laptop"), encoding="utf-8")
        print(page)
    elif options.names == ["explain"]:
        raise UserError("explain what? An entry, such as main-results/ALFWorld/All/HGPO/1.5B")
    elif command == "explain":
        for path in names:
            print(explain(path, source, tiers, options.allow_mixed))
    elif command == "study":
        rebuild_studies(names, source, tiers, out, options.metric)
    else:
        rebuild(options.names, source, tiers, out, options.allow_mixed)


if __name__ == "__main__":
    sys.exit(main())
