"""What a training run prints at its end: its cell, its success before and after, and the next command."""

from __future__ import annotations

import shlex
from pathlib import Path

from bepo.envs import Split
from bepo.runs.config import Config, identity_of
from bepo.runs.metrics import success_rate
from bepo.runs.session import RunSession
from bepo.runs.wandb_labels import labels_of
from bepo.store.find import DEFAULT
from bepo.store.run_files import StoredRun
from bepo.store.runs import run_id

_SHORT = 4  # overrides of a single run that its last line repeats


def cell_and_success(session: RunSession, done: StoredRun, split: Split) -> str:
    """Return the cell of a complete run, and its success on a split before and after training, in words.

    The cell is the overrides by which it differs from the others, or else a few overrides.
    """
    config, overrides = session.config, session.overrides
    updates = dict.fromkeys((0, done.metadata["result"]["updates"]))
    rates = [rate for update in updates if (rate := _rate(done, split, update))]
    shown = session.varying or (overrides if len(overrides) <= _SHORT else ())
    cell = labels_of(config, session.folder, shown).config["cell"]
    return f"{config.env.name} {cell} seed={config.seed}, {split} success {' -> '.join(rates)}"


def _rate(done: StoredRun, split: Split, update: int) -> str:
    """Return the success rate after an update as text; empty if the split was not evaluated then."""
    rows = [row for row in done.episodes() if (row["split"], row["update"]) == (split, update)]
    return f"{success_rate(rows, split, update):.3f}" if rows else ""


def next_command(command: str, config: Config) -> str:
    """Return the command line that looks at the run of a config: ``view`` or ``diagnose``."""
    folder = [] if Path(config.results) == DEFAULT else ["--results", config.results]
    return shlex.join(["python", "-m", f"bepo.{command}", run_id(identity_of(config)), *folder])
