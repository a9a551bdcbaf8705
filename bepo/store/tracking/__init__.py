"""Logging of runs beside the run folder: Weights & Biases, TensorBoard, Trackio. Each file of this folder is one sink.

The run folder has everything. A sink that fails is left out, and the run continues.
"""

from __future__ import annotations

import importlib
import netrc
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import urlparse

from bepo.core.errors import Missing, unknown_choice
from bepo.core.settings import Settings, setting

JobType = Literal["training", "tuning", "evaluation", "sweep", "studies"]
SINKS = ("wandb", "tensorboard", "trackio")
_PACKAGES = {"tensorboard": "tensorboard", "trackio": "trackio"}
"""What to install for the sinks whose packages are optional."""


@dataclass
class Tracking(Settings):
    """Where runs are logged beside their folders. ``wandb sync`` uploads the offline runs of W&B later."""

    mode: Literal["offline", "online", "disabled"] = "offline"
    """W&B: write local files for ``wandb sync``, log to a server, or do not use W&B."""
    project: str = "bepo"
    """The project in W&B and Trackio."""
    entity: str | None = None
    """The W&B user or team; null: the default of the logged-in user."""
    sinks: list[str] = setting(factory=lambda: ["wandb"])
    """Any of `wandb`, `tensorboard` and `trackio`, such as `[wandb,tensorboard]`. TensorBoard writes into the folder of
    the run, Trackio into `RESULTS/trackio` or `TRACKIO_DIR`."""

    group = "tracking"

    def __post_init__(self) -> None:
        super().__post_init__()
        for sink in self.sinks:
            if sink not in SINKS:
                raise unknown_choice("sink of tracking.sinks", sink, SINKS)

    @property
    def uses_wandb(self) -> bool:
        """Whether runs are logged to W&B, here or on a server."""
        return "wandb" in self.sinks and self.mode != "disabled"

    def missing(self) -> Missing | None:
        if self.uses_wandb and self.mode == "online" and not _logged_in():
            return Missing("not logged in to W&B", "wandb login")
        return None


def _logged_in() -> bool:
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlparse(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    try:
        return netrc.netrc().authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


@dataclass(frozen=True)
class Labels:
    """How a run appears in a sink: its name, group, job type, tags and config."""

    name: str
    group: str
    job_type: JobType
    tags: tuple[str, ...] = ()
    config: dict[str, Any] = field(default_factory=dict)


class Sink(Protocol):
    """One run in one sink. A file of this folder defines a class ``Tracker`` with these methods.

    It is made with the settings, and with the ID, folder, labels and logged rows of a run.
    """

    def log(self, row: dict[str, Any]) -> None:
        """Log the row of one update, under the same names as in metrics.jsonl."""
        ...

    def log_transcripts(self, update: int, episodes: Iterable[dict[str, Any]]) -> None:
        """Log test episodes of the policy after an update, with their steps."""
        ...

    def finish(self, summary: dict[str, Any] | None, files: Iterable[Path], root: Path, labels: Labels | None) -> None:
        """End the run with the files of its folder, relative to ``root``. Without ``summary`` the run failed."""
        ...


class Trackers:
    """A run in every sink that its settings name."""

    def __init__(
        self, settings: Tracking, run_id: str, folder: Path, labels: Labels, earlier: Iterable[dict[str, Any]] = ()
    ) -> None:
        rows = list(earlier)
        self._sinks: dict[str, Sink] = {}
        for name in dict.fromkeys(settings.sinks):
            self._try(name, lambda name=name: self._start(name, settings, run_id, folder, labels, rows))

    def _start(self, name: str, *arguments: Any) -> None:
        self._sinks[name] = importlib.import_module(f"{__name__}.{name}").Tracker(*arguments)

    def _try(self, name: str, call: Callable[[], object]) -> None:
        """Do something with a sink. If it fails, print so and leave it out."""
        try:
            call()
        except (Exception, SystemExit) as error:  # any type: the code of a sink
            self._sinks.pop(name, None)
            lacks = isinstance(error, ImportError) and name in _PACKAGES
            advice = f"; pip install {_PACKAGES[name]}" if lacks else ""
            problem = (str(error) or repr(error)).splitlines()[0]
            print(f"{name} stopped ({problem:.300}){advice}; the run continues without it", file=sys.stderr)

    def log(self, row: dict[str, Any]) -> None:
        """Log the row of one update."""
        for name, sink in list(self._sinks.items()):
            self._try(name, lambda sink=sink: sink.log(row))

    def log_transcripts(self, update: int, episodes: Iterable[dict[str, Any]]) -> None:
        """Log test episodes of the policy after an update."""
        listed = list(episodes)
        for name, sink in list(self._sinks.items()):
            self._try(name, lambda sink=sink: sink.log_transcripts(update, listed))

    def finish(
        self,
        summary: dict[str, Any] | None = None,
        files: Iterable[Path] = (),
        root: Path = Path(),
        labels: Labels | None = None,
    ) -> None:
        """End the run in every sink. Without ``summary`` the run failed."""
        listed = list(files)
        for name, sink in list(self._sinks.items()):
            self._try(name, lambda sink=sink: sink.finish(summary, listed, root, labels))


def step_text(step: dict[str, Any]) -> str:
    """Return a step of a transcript as text."""
    return f"{step['prompt']}\n> {step['response']}\n= {step['action']}, reward {step['reward']:g}"
