"""``python -m bepo.view RUN ...``: see what runs did, on one local page or in the terminal.

RUN is a run folder, an archive, the beginning of a run ID, or a study. The page shows curves, settings and episodes,
with the advantage of every step by every estimator. Without RUN, runs.html lists all runs and the test tasks that each
solves. The pages need no server and no network.
"""

from __future__ import annotations

import argparse
import os
import sys
import webbrowser
from contextlib import suppress

from bepo.core.errors import Parser, UserError, exit_code, path_of, whole_number
from bepo.store.files import write_output
from bepo.store.find import DEFAULT, MANY, existing, find_runs, read_every, views
from bepo.store.run_files import StoredRun

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def main(arguments: list[str] | None = None) -> int:
    """Write and open the page, or print. Return the exit status: 0, or 2 for bad input."""
    options = _parser().parse_intermixed_args(arguments)
    return exit_code(lambda: _view(options))


def _parser() -> Parser:
    form = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog="python -m bepo.view", description=__doc__, formatter_class=form)
    add = parser.add_argument
    add("runs", nargs="*", metavar="RUN", help="what to show")
    add("--compare", nargs=2, metavar=("A", "B"), help="pair the test episodes of two runs, show where they differ")
    add("--text", action="store_true", help="print one episode, or the comparison, instead of writing a page")
    add(
        "--episode",
        type=whole_number(1, 10**9),
        default=1,
        metavar="N",
        help="with --text: number of the episode (default: 1)",
    )
    add("--from", dest="source", metavar="SOURCE", help="with --text: 'test episodes', or 'update 50' of training")
    add("--results", type=path_of, default=DEFAULT, help="results folder (default: results)")
    add("--watch", type=path_of, metavar="RESULTS", help="follow the runs of a results folder in the browser")
    add(
        "--port",
        type=whole_number(0, 65_535),
        default=0,
        help="with --watch: port on this machine (default: a free one)",
    )
    add("--tier", help="only runs of a study at this tier")
    add("--out", type=path_of, help="file to write (default: in RESULTS/views, or in views if that is read-only)")
    add("--no-open", action="store_true", help="only write the page")
    return parser


def _view(options: argparse.Namespace) -> None:
    if options.watch:
        return _watch(options)
    existing(options.results)
    pair = [_one(name, options) for name in options.compare or []]
    named = [run for name in options.runs for run in find_runs(name, options.results, options.tier)]
    runs = list({run.path: run for run in [*pair, *named]}.values())
    if len(pair) == 2 and pair[0].path == pair[1].path:
        raise UserError(f"--compare {' '.join(options.compare)}: both name the same run; name two")
    if not options.text and (options.source or options.episode != 1):
        raise UserError("--episode and --from need --text; a page has every episode")
    if not runs:
        _write_overview(options)
    elif options.text:
        _print(runs, pair, options)
    else:
        _write(runs, (0, 1) if pair else None, options)


def _watch(options: argparse.Namespace) -> None:
    """Serve pages of a results folder until Ctrl+C."""
    from bepo.explore.watch import serve

    existing(options.watch)
    with serve(options.watch, options.port) as server:
        address = f"http://{server.server_address[0]}:{server.server_address[1]}/"
        print(f"{address}  (Ctrl+C ends it)", flush=True)
        _open(address, options)
        with suppress(KeyboardInterrupt):
            server.serve_forever()


def _write_overview(options: argparse.Namespace) -> None:
    from bepo.explore.columns import stored_archives
    from bepo.explore.overview import overview

    if options.text:
        raise UserError("--text: name a run; `python -m analysis runs` lists them")
    runs = read_every(options.results, options.tier, stored_archives())
    _save(overview(runs, options.results), "runs", options)


def _one(name: str, options: argparse.Namespace) -> StoredRun:
    runs = find_runs(name, options.results, options.tier)
    if len(runs) > 1:
        raise UserError(f"--compare {name}: {len(runs)} runs; name one of {', '.join(run.id for run in runs)}")
    return runs[0]


def _print(runs: list[StoredRun], pair: list[StoredRun], options: argparse.Namespace) -> None:
    from bepo.explore.text import comparison, transcript

    if not pair and len(runs) > 1:
        raise UserError(f"--text prints an episode of one run, but {len(runs)} are named")
    lines = comparison(*pair) if pair else transcript(runs[0], options.source, options.episode)
    for line in lines:
        print(line)


def _write(runs: list[StoredRun], compared: tuple[int, int] | None, options: argparse.Namespace) -> None:
    from bepo.explore.index import page
    from bepo.explore.overview import overview

    study = _study(runs, options)
    if len(runs) > MANY and not study and not compared:
        print(
            f"{len(runs)} runs: the page lists them; name up to {MANY} for their curves and episodes, or make each "
            "page when you open it: python -m bepo.view --watch RESULTS",
            file=sys.stderr,
        )
        return _save(overview(runs, options.results), _name(runs, study), options)
    _save(page(runs, compared, study), _name(runs, study), options)


def _study(runs: list[StoredRun], options: argparse.Namespace) -> str:
    """Return the study that is named, if nothing else is; else an empty text."""
    first, *more = options.runs or [""]
    return first if len(runs) > 1 and not more and not os.path.exists(first) else ""


def _name(runs: list[StoredRun], study: str) -> str:
    """Return the name of a page: the study and the tiers of its runs, or without a study the IDs of the runs."""
    if study:
        return ".".join([study, *sorted({str(run.config.get("tier")) for run in runs})])
    return "-".join(run.id[:6] for run in runs[:4]) + (f"-and-{len(runs) - 4}-more" if len(runs) > 4 else "")


def _save(text: str, name: str, options: argparse.Namespace) -> None:
    """Write a page, print its path, and open it if there is a display."""
    out = options.out or views(options.results) / f"{name}.html"
    write_output(out, text)
    print(out)
    _open(out.resolve().as_uri(), options)


def _open(address: str, options: argparse.Namespace) -> None:
    if not options.no_open and (sys.platform != "linux" or any(os.environ.get(d) for d in _DISPLAYS)):
        webbrowser.open(address)


if __name__ == "__main__":
    sys.exit(main())
