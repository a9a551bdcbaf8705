"""Rebuild tables, figures and the page from finished runs.

``python -m analysis [LABEL ...]`` builds artefacts. Without labels it builds all of them, the page and the paper's
macros. With labels the page and the macros stay as they are. All other commands are named first.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bepo.core.errors import Parser, UserError, exit_code, path_of, unknown_choice
from bepo.runs.config import TIERS
from bepo.store.files import check_regular
from bepo.store.find import DEFAULT, existing, views

if TYPE_CHECKING:
    from analysis.data.sources import Source

_MOST_SEEDS = 10_000
_BUILD = "build"
_SOURCES = (
    "local: RESULTS only; published: paper/runs only; wandb:ENTITY/PROJECT: downloaded into RESULTS/wandb; "
    "default: RESULTS and paper/runs"
)


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Return 0, 1 if a table or figure was left out because of an error, or 2 after bad input."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] not in ([name] for name in (*_COMMANDS, "-h", "--help")):
        words = [_BUILD, *words]
    options = _parser().parse_args(words)
    return exit_code(lambda: _run(options))


def _parser() -> Parser:
    form = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog="python -m analysis", description=__doc__, formatter_class=form)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (run, names, taken) in _COMMANDS.items():
        program = parser.prog if name == _BUILD else f"{parser.prog} {name}"
        add = commands.add_parser(name, prog=program, help=run.__doc__, description=run.__doc__).add_argument
        if names:
            add("names", nargs="*", metavar=names)
        for option in taken:
            add(option, **_OPTIONS[option])
        add("--results", type=path_of, default=DEFAULT, help="folder of finished runs")
        add("--source", help=_SOURCES)
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


def _run(options: argparse.Namespace) -> int | None:
    if vars(options).get("tier") not in (None, *TIERS):
        raise unknown_choice("tier", options.tier, TIERS)
    if options.source in (None, "local"):
        existing(options.results)
    if options.command != "runs":
        _check_matplotlib()
    return _COMMANDS[options.command][0](options)


def _check_matplotlib() -> None:
    """Raise ``UserError`` if matplotlib cannot be imported with its environment variables."""
    settings = Path(os.environ.get("MATPLOTLIBRC", ""))
    try:
        if settings.exists() and not settings.is_dir():
            check_regular(settings, "file of settings")
        import matplotlib  # noqa: F401
    except (ValueError, OSError) as error:
        said = [f"{name}={os.environ[name]}" for name in ("MPLBACKEND", "MATPLOTLIBRC") if os.environ.get(name)]
        raise UserError(f"{' '.join(said)}: matplotlib cannot start with this, unset it ({error})") from None


# Statistics, plots and algebra take seconds to import: each command imports what it needs.
def _build(options: argparse.Namespace) -> int | None:
    """Build tables and figures: all, or those with these labels. Without a command, this one runs."""
    from analysis.data.cache import digest_of, load, save, written
    from analysis.data.sources import state_of

    source, tiers = _source(options)
    for name in options.names:
        if name in _COMMANDS:
            raise UserError(f"{name}: a command stands before its options: python -m analysis {name} ...")
    out = _out(options)
    key = ("build", digest_of(source), out.resolve(), tiers, options.allow_mixed)
    if not options.names and load(source, *key) == state_of(written(out)) != []:
        print(f"unchanged since the last analysis\npage:    {out / 'report.html'}")
        return 0
    from analysis.grid.artefact import artefacts
    from analysis.output.explain_claim import explanations
    from analysis.output.rebuild import rebuild

    whole = rebuild(options.names, source, tiers, out, options.allow_mixed, commands=tuple(_COMMANDS))
    if not options.names and whole:
        save(state_of(written(out)), *key)
        for tier in artefacts("table")["claims"].tiers(source.places()):  # tested already: `explain` answers at once
            explanations(source, tier, options.allow_mixed)
    return 0 if whole else 1


def _explain(options: argparse.Namespace) -> None:
    """Print the runs, configs and seeds behind a number, such as main-results/ALFWorld/All/HGPO/1.5B."""
    from analysis.output.explain_claim import explain_claim

    source, tiers = _source(options)
    if not options.names:
        raise UserError("explain: name an entry, such as main-results/ALFWorld/All/HGPO/1.5B or claims/NAME")
    for path in options.names:
        label, _, name = path.partition("/")
        if label == "claims":
            print("\n".join(explain_claim(name, source, tiers, options.allow_mixed)))
        else:
            print(_explain_entry(path, source, tiers, options.allow_mixed))


def _explain_entry(path: str, source: Source, tiers: list[str], allow_mixed: bool) -> str:
    """Return the explanation of an entry, which is kept until runs or sources change."""
    from analysis.data.cache import cached, digest_of

    def explained() -> str:
        from analysis.output.explain import explain

        return explain(path, source, tiers, allow_mixed)

    return cached(explained, source, "entry", digest_of(source), path, tiers, allow_mixed)


def _power(options: argparse.Namespace) -> None:
    """Estimate how many more seeds would decide each undecided claim, and what they cost."""
    from analysis.output.power import power

    source, tiers = _source(options)
    print(power(source, source.main_tier(tiers), options.allow_mixed))


def _headlines(options: argparse.Namespace) -> None:
    """Print five declared claims with their numbers, and the path of the page."""
    from analysis.output.headlines import COLUMNS, headlines
    from bepo.core.printed_tables import show_table

    source, tiers = _source(options)
    show_table([*map(str.capitalize, COLUMNS)], headlines(source, tiers, options.allow_mixed))
    print("Difference: points of success over blocks, with a 95 % interval. Verdict: declared before the runs.")
    page = Path("paper") / "report.html"
    print(f"page:    {page if page.exists() else 'python -m analysis makes it'}")


def _results(options: argparse.Namespace) -> None:
    """Write docs/results.md from the published runs."""
    from analysis.data.sources import open_source
    from analysis.output.results import PAGE, results

    page = (options.out or PAGE.parent) / PAGE.name
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(results(open_source(options.results, "published"), options.tier or "laptop"), encoding="utf-8")
    print(page)


def _study(options: argparse.Namespace) -> None:
    """Make a table and curves of any study, also of your own."""
    from analysis.output.rebuild import rebuild_studies

    source, tiers = _source(options)
    rebuild_studies(options.names, source, tiers, options.out or views(options.results), options.metric)


def _curves(options: argparse.Namespace) -> None:
    """Draw metrics of runs, also while they train."""
    from analysis.output.curves import draw_curves

    print(draw_curves(options.names, options.results, options.metric, options.tier, options.out))


def _runs(options: argparse.Namespace) -> None:
    """List the newest runs, yours first (tier=smoke status=partial ...), or delete some: runs delete RUN_ID ..."""
    from analysis.data.cache import cached, digest_of
    from analysis.data.sources import open_source
    from analysis.output import ledger

    source = open_source(options.results, options.source)
    if options.names[:1] == ["delete"]:
        ledger.delete(source.results, options.names[1:])
        print(f"deleted {' '.join(dict.fromkeys(options.names[1:]))}")
        return
    ledger.check_filters(options.names)
    make = partial(ledger.ledger, source.results, source.published.values())
    table = cached(make, source, "ledger", digest_of(source))
    shown = ledger.filtered(table, options.names)
    number = None if options.all else ledger.NEWEST
    print(ledger.values_instead(table, options.names) if shown.empty and len(table) else ledger.show(shown, number))


def _source(options: argparse.Namespace) -> tuple[Source, list[str]]:
    """Return the runs and the tiers to analyse. Raises ``UserError`` if no study has a run."""
    from analysis.data.sources import open_source

    source = open_source(options.results, options.source, options.seeds)
    tiers = [options.tier] if options.tier else source.tiers()
    if not tiers:
        raise UserError(f"{source.results}: no study has a run yet; python -m bepo.sweep makes some")
    return source, tiers


def _out(options: argparse.Namespace) -> Path:
    """Return the folder to write to: single artefacts of another results folder are not the paper's."""
    apart = options.seeds or (options.names and options.results != DEFAULT)
    return options.out or (views(options.results) if apart else Path("paper"))


_OPTIONS: dict[str, dict] = {
    "--tier": {
        "help": f"{', '.join(TIERS)}; default: every tier that has runs (explain: the highest; power: that of blocks)"
    },
    "--out": {
        "type": path_of,
        "help": "folder to write to (default: paper; RESULTS/views for study, curves, --seeds, labels with --results)",
    },
    "--seeds": {
        "type": _seeds,
        "default": (),
        "metavar": "8-11",
        "help": "use runs of these training seeds only (8,9 or 8-11)",
    },
    "--metric": {"action": "append", "default": [], "help": "another metric; may be repeated"},
    "--all": {"action": "store_true", "help": "show all runs, not the newest 20"},
    "--allow-mixed": {"action": "store_true", "help": "average over method versions, task sets and backends"},
}

_COMMANDS: dict[str, tuple[Callable[[argparse.Namespace], int | None], str, tuple[str, ...]]] = {
    _BUILD: (_build, "LABEL", ("--tier", "--seeds", "--out", "--allow-mixed")),
    "explain": (_explain, "ENTRY", ("--tier", "--seeds", "--allow-mixed")),
    "power": (_power, "", ("--tier", "--seeds", "--allow-mixed")),
    "headlines": (_headlines, "", ("--tier", "--seeds", "--allow-mixed")),
    "results": (_results, "", ("--tier", "--out")),
    "runs": (_runs, "FILTER", ("--all",)),
    "study": (_study, "NAME", ("--tier", "--seeds", "--out", "--metric")),
    "curves": (_curves, "RUN", ("--tier", "--out", "--metric")),
}
"""Each command: its function, what its names are (empty: it takes none), and its options beside those of all."""


if __name__ == "__main__":
    sys.exit(main())
