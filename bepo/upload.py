"""``python -m bepo.upload ENTITY/PROJECT [RESULTS]``: upload the study cells of a results folder to a W&B project.

A run uploads the study cells that point at it when it ends. This command adds the cells that were written later.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bepo.core.errors import Parser, exit_code, path_of
from bepo.store.find import DEFAULT
from bepo.store.tracking import Tracking
from bepo.store.tracking.wandb import upload_cells


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(
        prog="python -m bepo.upload", description="Upload the study cells of a results folder to a W&B project."
    )
    parser.add_argument("project", metavar="ENTITY/PROJECT")
    parser.add_argument("folder", nargs="?", type=path_of, metavar="RESULTS", help="default: results")
    parser.add_argument("--results", type=path_of, default=DEFAULT, metavar="RESULTS", help="the same")
    options = parser.parse_args(arguments)
    if options.project.count("/") != 1:
        parser.error(f"{options.project!r} is not ENTITY/PROJECT")
    return exit_code(lambda: _upload(options.project, options.folder or options.results))


def _upload(name: str, results: Path) -> None:
    entity, project = name.split("/")
    number = upload_cells(Tracking("online", project, entity), results)
    print(f"{number} cells of {results} -> {name}")


if __name__ == "__main__":
    sys.exit(main())
