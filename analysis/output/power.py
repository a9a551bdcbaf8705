"""``python -m analysis power``: how many more training seeds would decide each undecided claim, and their cost."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, isfinite

import numpy as np

from analysis.claims.entries import Entries
from analysis.claims.needs import MOST_SEEDS, seeds_needed
from analysis.claims.verdicts import NOT_JUDGED, Evaluated
from analysis.data.runs import Run
from analysis.data.sources import Source
from analysis.grid.artefact import artefacts
from bepo.core.errors import UserError


@dataclass(frozen=True)
class Need:
    """What would decide a claim, if its differences and deviations stay as large as they are now.

    ``seeds``: new training seeds of every entry; inf if the runs do not allow an estimate. ``first``: the first new
    seed. ``runs``: how many runs they are. ``hours``: their core-hours. ``studies``: the studies to repeat. ``place``:
    the environment and the model as overrides, each only if all runs of the claim have the same.
    """

    claim: str
    seeds: float
    first: int
    runs: int
    hours: float
    studies: tuple[str, ...]
    place: str


def power(source: Source, tier: str, allow_mixed: bool = False) -> str:
    """Return a table of what each undecided claim needs, cheapest first.

    Raises ``UserError`` if no claim has runs, and at tier smoke.
    """
    if tier == NOT_JUDGED:
        raise UserError(f"tier={tier}: claims are not judged at this tier; power needs runs of tier laptop or paper")
    entries = artefacts("table")["claims"].load(source, tier, allow_mixed)
    assert isinstance(entries, Entries)
    tested = [e for e in entries.evaluated if e.runs.tested]
    if not tested:
        raise UserError(f"no claim has runs at tier {tier}")
    needs = sorted((need(e, entries) for e in tested if e.runs.word == "undecided"), key=lambda n: (n.hours, n.claim))
    decided = len(tested) - len(needs)
    head = f"{decided} of {len(tested)} claims with runs are decided at tier {tier}."
    why = "With 80 % power, if differences and deviations stay as they are now, the others need about:"
    rows = (
        "Seeds added after a verdict was seen do not keep its error rate, so all are new, and the claim is tested on\n"
        "these alone: python -m analysis claims --seeds FIRST-LAST. Runs and core-hours: of the claim's rows. The\n"
        "command trains every row of its studies (credit=...: fewer). The power is that of all parts of a claim at\n"
        "once, without correction for other claims: a lower bound. Of claims about spread it is simulated."
    )
    return "\n".join([head, *([why, "", *_lines(needs, tier), "", rows] if needs else [])])


def need(e: Evaluated, entries: Entries) -> Need:
    """Return the numbers that would decide a claim with 80 % power at 5 %, without correction for other claims."""
    assert e.runs.tested
    seeds = seeds_needed(e.runs.tested)
    every = [entries.by_key[e.claim.entries[name]] for name in e.claim.names]
    studies = sorted({run.config.get("study", {}).get("name", "") for entry in every for run in entry.runs} - {""})
    runs = list({run.id: run for entry in every for run in entry.runs}.values())
    rows = {(run.env, run.model, run.method, str(run.settings)) for run in runs}
    more = int(seeds) * len(rows) if isfinite(seeds) else 0
    hours = float(np.mean([_cpu_hours(run) for run in runs])) * more if isfinite(seeds) else inf
    places = {"env": {run.env for run in runs}, "model": {run.model for run in runs}}
    place = " ".join(f"{name}={next(iter(values))}" for name, values in places.items() if len(values) == 1)
    first = 1 + max((run.seed for run in entries.runs), default=-1)
    return Need(e.claim.id, seeds, first, more, hours, tuple(studies), place)


def _cpu_hours(run: Run) -> float:
    return float(np.nansum(run.metrics.filter(like="seconds/"))) / 3600


def _lines(needs: list[Need], tier: str) -> Iterator[str]:
    unknown = f"more than {MOST_SEEDS} seeds, or no estimate (one seed, or seeds that agree exactly)"
    yield f"{'claim':34} {'seeds':>6} {'runs':>5} {'core-hours':>10}  command"
    for claim in needs:
        if not isfinite(claim.seeds):
            yield f"{claim.claim:34} {'?':>6} {'':>5} {'':>10}  {unknown}"
            continue
        what = " ".join(filter(None, [*(claim.studies or ["STUDY"]), claim.place, f"tier={tier}"]))
        command = f"python -m bepo.sweep {what} 'seed=range({claim.first},{claim.first + int(claim.seeds)})'"
        yield f"{claim.claim:34} {int(claim.seeds):6} {claim.runs:5} {claim.hours:10.1f}  {command}"
