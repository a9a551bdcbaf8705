"""Build the requested artefacts, write them, and print a summary."""

import itertools
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from analysis.claims.entries import OfEntries, evaluated_claims
from analysis.data.sources import Source
from analysis.grid.artefact import Artefact, artefacts
from analysis.output import page
from analysis.output.build import Built, LeftOut, build, make_folders, prepare, write, write_macros
from analysis.output.ledger import ledger, newest
from analysis.output.study import build_study
from analysis.output.text import to_markdown
from bepo.core.errors import UserError, unknown_choice
from bepo.core.printed_tables import show_table
from bepo.runs.config import TIERS
from bepo.store.run_files import INCOMPLETE


def rebuild(
    labels: Sequence[str],
    source: Source,
    tiers: Sequence[str],
    out: Path,
    allow_mixed: bool = False,
    commands: Sequence[str] = (),
) -> bool:
    """Write the artefacts with these labels at these tiers; without labels all of them, the page and the macros.

    The page shows every tier that has runs, each with what these runs are shown in; what has no runs at any tier is
    made at the main tier. A single tier also has all tables, and the figures that need no runs: its paper can be made.
    What an earlier analysis left at another tier is removed. What cannot be made is left out with a line; returns
    whether everything was made. Raises ``UserError`` for an unknown label, where the message lists ``commands`` beside
    the labels, and if nothing could be made.
    """
    known = artefacts()
    for label in labels:
        if label not in known:
            raise unknown_choice("artefact or command", label, [*known, *commands], "paper/artefacts.yaml")
    make_folders(out)
    trained = source.tiers()
    every = set(tiers) if labels else {*trained, *tiers}
    places, main = set(source.places()), source.main_tier(trained or every)
    wanted: list[tuple[Artefact, str]] = []
    tiers_of = {label: item.tiers(places) or {main} for label, item in known.items()}
    order = sorted(every, key=TIERS.index, reverse=True)
    for tier in sorted(order, key=lambda tier: bool(labels) and tier != main):  # named artefacts: the main tier first
        chosen = {label for label, of_item in tiers_of.items() if tier in of_item}
        if [tier] == [*tiers]:
            chosen |= {*labels} or {label for label, item in known.items() if item.kind == "table" or not item.studies}
        shown = [label for label in labels or known if label in chosen]
        if not labels:
            _remove(known.keys() - shown, tier, out)
        wanted += [(known[label], tier) for label in dict.fromkeys(shown)]
    prepare([(item, tier) for item, tier in wanted if not isinstance(item, OfEntries)], source, allow_mixed, out)
    built, left_out = [], LeftOut()
    for item, tier in wanted:
        with left_out.of(f"{item.label} (tier {tier})"):
            built.append(build(item, source, tier, allow_mixed, out))
    built = write(built, out, left_out)
    if not built:
        raise left_out.problems[0]
    if labels:
        _print([item for item in built if item.tier in tiers])
    else:
        _print_summary(built)
    print(f"tables:  {out / 'tables'}\nfigures: {out / 'figures'}")
    if not labels:
        with left_out.of("macros"):
            write_macros(built, out)
        report = out / "report.html"
        with left_out.of(str(report)):
            judged = {item.tier for item in built if isinstance(known[item.label], OfEntries)}
            claims = {tier: evaluated_claims(source, tier, allow_mixed) for tier in trained if tier in judged}
            listed = newest(ledger(source.results), number=None)
            own = [run for run in source.runs() if not run.published]
            text = page.render(built, trained, source.label, claims, listed, own, out, main)
            report.write_text(text, encoding="utf-8")
            print(f"page:    {report}")
    return not left_out.problems


def _remove(labels: Iterable[str], tier: str, out: Path) -> None:
    for folder, label in itertools.product(("tables", "figures"), labels):
        for path in (out / folder).glob(f"{label}.{tier}.*"):
            path.unlink()


def rebuild_studies(
    names: Sequence[str], source: Source, tiers: Sequence[str], out: Path, metrics: Sequence[str]
) -> None:
    """Write the table and the curves of each named study, at every tier at which it has runs.

    Raises ``UserError`` if no study is named, or if one has no complete run.
    """
    if not names:
        raise UserError(f"study: name one of {', '.join(source.studies())}")
    for name in names:
        built, left_out = [item for tier in tiers for item in build_study(name, source, tier, metrics)], LeftOut()
        if not built:
            raise UserError(f"study {name}: no complete run yet (python -m analysis runs study={name})")
        if not (built := write(built, out, left_out)):
            raise left_out.problems[0]
        _print(built)
        for item in built:
            kind = ("tables", "md") if item.table else ("figures", "png")
            print(f"{item.tier}: {out / kind[0] / f'{item.label}.{item.tier}.{kind[1]}'}")


def _print(built: list[Built]) -> None:
    """Print the runs that were left out, and the tables."""
    left_out, unfinished = _left_out(built)
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    if unfinished:
        print(f"left out: {unfinished} runs that are not complete (python -m analysis runs)", file=sys.stderr)
    for item in built:
        if item.table and sys.stdout.isatty():
            print(f"\n{item.label} (tier {item.tier})\n{item.table.caption}")
            show_table(item.table.names, [[cell.text for cell in row] for row in item.table.rows])
            print("\n".join(item.table.notes))
        elif item.table:
            print(f"\n{item.label} (tier {item.tier})\n\n{to_markdown(item.table)}")
        elif item.product.notes:
            print(f"\n{item.label} (tier {item.tier}): {' '.join(item.product.notes)}")


def _print_summary(built: list[Built]) -> None:
    """Print one line per tier, and one line about runs that were left out."""
    for tier in reversed(TIERS):
        mine = [item for item in built if item.tier == tier]
        runs = {run.id for item in mine for run in item.runs}
        tables = [item for item in mine if item.table]
        if mine:
            shown = f"{sum(map(_shows_runs, tables))} of {len(tables)} tables show runs"
            print(f"tier {tier}: {len(runs)} runs; {shown}; {len(mine) - len(tables)} figures")
    left_out, unfinished = _left_out(built)
    if left_out or unfinished:
        lines = [*left_out[:1], "..."] if len(left_out) > 1 else left_out
        print(f"left out: {unfinished} runs that are not complete, {len(left_out)} for other reasons; name a LABEL, or")
        print(f"          see `python -m analysis runs`{': ' if lines else ''}{'; '.join(lines)}")


def _shows_runs(item: Built) -> bool:
    entries = item.table.entries if item.table else []
    return any(entry.reproduced for entry in entries) if entries else bool(item.runs)


def _left_out(built: list[Built]) -> tuple[list[str], int]:
    """Return the reasons for runs left out, and the number of incomplete runs."""
    skipped = sorted({line for item in built for line in item.skipped})
    reasons = [line for line in skipped if not line.endswith(INCOMPLETE)]
    return reasons, len(skipped) - len(reasons)
