"""Table sokoban-main: success on 6x6 Sokoban."""

from __future__ import annotations

from analysis.artefact import Table, artefact
from analysis.grid import grid
from analysis.parts import Block, Metric
from analysis.runs import Study
from analysis.tables.main_results import TYPED


@artefact("sokoban-main", "table", study="main_sokoban")
def sokoban_main(study: Study) -> Table:
    success = Metric("success", "Success", headline=True)
    pictures = Block(model="vl", env="sokoban")
    return grid("sokoban-main", study, "Sokoban success rate (%) on 6×6 tasks.", (success,), (pictures,), TYPED)
