"""TensorBoard: event files in the folder ``tensorboard`` of a run. ``tensorboard --logdir results/runs`` shows them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bepo.store.json_files import nan_to_none
from bepo.store.tracking import Labels, Tracking, step_text

FOLDER = "tensorboard"


class Tracker:
    """Logs one run. The rows of earlier sessions are logged again, so that a resumed run has no gap."""

    def __init__(
        self, settings: Tracking, run_id: str, folder: Path, labels: Labels, earlier: Iterable[dict[str, Any]] = ()
    ) -> None:
        from torch.utils.tensorboard import SummaryWriter

        shutil.rmtree(folder / FOLDER, ignore_errors=True)
        self._writer = SummaryWriter(str(folder / FOLDER))
        about = {"name": labels.name, "group": labels.group, "tags": labels.tags, "config": labels.config}
        self._writer.add_text("run", f"```json\n{json.dumps(about, indent=1, default=str)}\n```")
        for row in earlier:
            self.log(row)

    def log(self, row: dict[str, Any]) -> None:
        """Log the numbers of an update as scalars."""
        for name, value in nan_to_none(row).items():
            if isinstance(value, int | float) and name != "update":
                self._writer.add_scalar(name, value, row["update"])

    def log_transcripts(self, update: int, episodes: Iterable[dict[str, Any]]) -> None:
        """Log each episode as a text."""
        for episode in episodes:
            text = "\n\n".join(map(step_text, episode["steps"]))
            self._writer.add_text(f"transcripts/{episode['task']}", f"```\n{text}\n```", update)

    def finish(self, summary: dict[str, Any] | None, files: Iterable[Path], root: Path, labels: Labels | None) -> None:
        """Log the summary as scalars, and close the file."""
        for name, value in nan_to_none(summary or {}).items():
            if isinstance(value, int | float):
                self._writer.add_scalar(f"summary/{name}", value)
        self._writer.close()
