"""Trackio: a database in ``RESULTS/trackio``, or in ``TRACKIO_DIR``. ``trackio show`` opens its dashboard."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any

from bepo.store.json_files import nan_to_none
from bepo.store.tracking import Labels, Tracking, step_text


class Tracker:
    """Logs one run under its run ID. The rows of earlier sessions are logged again, in place of the earlier ones."""

    def __init__(
        self, settings: Tracking, run_id: str, folder: Path, labels: Labels, earlier: Iterable[dict[str, Any]] = ()
    ) -> None:
        os.environ.setdefault("TRACKIO_DIR", str(folder.parents[1].absolute() / "trackio"))  # read at the import
        import trackio

        with redirect_stdout(StringIO()):
            with suppress(ValueError):  # the project does not exist yet
                for run in trackio.Api().runs(settings.project):
                    if run.name == run_id:
                        run.delete()
            config = {"label": labels.name, "tags": list(labels.tags), **labels.config}
            self._run = trackio.init(
                settings.project,
                run_id,
                labels.group or None,
                config=config,
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )
        self._text = trackio.Markdown
        for row in earlier:
            self.log(row)

    def log(self, row: dict[str, Any]) -> None:
        """Log the row of one update."""
        self._run.log(
            {name: value for name, value in nan_to_none(row).items() if value is not None}, step=row["update"]
        )

    def log_transcripts(self, update: int, episodes: Iterable[dict[str, Any]]) -> None:
        """Log each episode as a text."""
        texts = {f"transcripts/{e['task']}": "\n\n".join(map(step_text, e["steps"])) for e in episodes}
        self._run.log({name: self._text(f"```\n{text}\n```") for name, text in texts.items()}, step=update)

    def finish(self, summary: dict[str, Any] | None, files: Iterable[Path], root: Path, labels: Labels | None) -> None:
        """Log the summary, and end the run."""
        with redirect_stdout(StringIO()):
            if summary:
                self._run.log({f"summary/{name}": v for name, v in nan_to_none(summary).items() if v is not None})
            self._run.finish()
