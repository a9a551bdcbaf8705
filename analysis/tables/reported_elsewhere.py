"""Table reported-elsewhere: what papers report of newer estimators and losses, and what the estimators reach here."""

from collections.abc import Iterator, Mapping

from analysis.claims.blocks import IN_BLOCKS, Frames, measured_by_env, runs_in_blocks
from analysis.contrast import weighted
from analysis.data.methods import environment_name, name_of, row_label
from analysis.data.reported import Reported, entries_of
from analysis.data.rows import ROW_IN_BLOCKS
from analysis.data.runs import grouped
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.contrasts import FEWEST
from analysis.grid.notes import origins, protocol
from analysis.grid.success import mean_of
from analysis.grid.table import Printed, Table

_COLUMNS = {
    "alfworld/All": "ALFWorld, seen",
    "alfworld/unseen": "ALFWorld, unseen",
    "webshop/score": "WebShop score",
    "webshop/success": "WebShop success",
    "sokoban/success": "Sokoban",
    "scienceworld/score": "ScienceWorld",
}
_OURS = {"alfworld/All": "alfworld", "webshop/success": "webshop", "sokoban/success": "sokoban"}
"""The environment of a column that runs in blocks can fill."""


_STUDIES = (*IN_BLOCKS, "crbc_depth")


@artefact("reported-elsewhere", "table", study=_STUDIES, key=ROW_IN_BLOCKS)
def reported_elsewhere(studies: Studies) -> Table:
    """Show the numbers of each paper with model and who ran the method, and below them those of runs in blocks."""
    used = runs_in_blocks(studies, _STUDIES)
    ours, rows = measured_by_env(used), []
    for method, entries in grouped(entries_of("reported-elsewhere"), lambda entry: entry.row).items():
        rows += [*_reported(method, entries), *_own(method, studies.tier, ours)]
    return Table(
        "Success rates (%) and scores that papers report for newer estimators and losses, and those of our runs.",
        ["Method", "Model", "Run by", *_COLUMNS.values(), "Source"],
        rows,
        [
            *([" ".join(protocol(studies.values(), used))] if used else []),
            "Reported: on the test tasks of the papers, ALFWorld's seen and unseen split; deviations are over three "
            "training seeds. ARLArena's numbers on WebShop are left out, because our notes do not name their measure. "
            "Copied: from another paper's table. This project: tiny models, text Sokoban and generated tasks, at least "
            f"{FEWEST} blocks; the level of table blocks-methods, mean over blocks ± one sample standard deviation. "
            "The two kinds do not compare. Losses on text Sokoban are in table blocks-losses.",
            *origins(used),
        ],
        used=used,
        left=3,
    )


def _reported(method: str, entries: list[Reported]) -> Iterator[list[Printed | str | None]]:
    for group, same in grouped(entries, lambda entry: entry.group).items():
        by_column, first = {entry.column: entry for entry in same}, same[0]
        model, _, again = group.partition(", run again by ")
        by = "copied" if first.copied else f"{again}'s authors" if again else "its authors"
        numbers = [_printed(by_column[c]) if c in by_column else None for c in _COLUMNS]
        yield [row_label(method, name_of), model, by, *numbers, first.note.removeprefix("copied: ")]


def _own(method: str, tier: str, ours: Mapping[str, Frames]) -> Iterator[list[Printed | str | None]]:
    """Yield the row of this project's runs, if there are enough blocks."""
    levels = {env: weighted(frames["level"], {method: 1}).to_numpy() for env, frames in ours.items()}
    means = {env: mean_of(sample) for env, sample in levels.items() if len(sample) >= FEWEST}
    if means:
        numbers = [means.get(_OURS.get(column, "")) for column in _COLUMNS]
        counts = ", ".join(f"{environment_name(env)} {len(levels[env])}" for env in _OURS.values() if env in means)
        yield [row_label(method), "tiny", f"this project, tier {tier}", *numbers, f"blocks: {counts}"]


def _printed(entry: Reported) -> str:
    return f"{entry.mean} ± {entry.std}" if entry.std else entry.mean
