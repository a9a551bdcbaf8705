"""Weights & Biases; only this module imports wandb.

W&B gets the files of the run folder under the same paths, so that a download restores the folder.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeVar

from bepo.core.deadline import call_with_timeout
from bepo.core.errors import UserError
from bepo.store.json_files import nan_to_none
from bepo.store.tracking import Labels, Tracking, step_text

PLACES = ("runs/", "studies/")  # the folders of a results folder that W&B gets
T = TypeVar("T")
_OF_EPISODE = ("task", "kind", "success", "task_score", "return", "steps")
_START_TIMEOUT = 30.0  # seconds for W&B to start
_TIMEOUT = 60.0  # seconds for an answer, after which W&B is given up; its client can wait for ever
_TEARDOWN_TIMEOUT = 5.0  # seconds for W&B to end after it was given up
_SPACE = 1 << 16  # bytes that a folder of W&B must have
_LONGEST_TAG, _LONGEST_NAME = 64, 128  # limits of W&B in characters


class Tracker:
    """Logs one run. Its W&B ID is the run ID, so that a resumed run or a late sync does not make a second run.

    Offline, ``earlier`` rows are logged again and the W&B folders of earlier sessions are removed, so that one folder
    holds the whole run. Online, those are logged that the server lacks.
    """

    def __init__(
        self, settings: Tracking, run_id: str, folder: Path, labels: Labels, earlier: Iterable[dict[str, Any]] = ()
    ) -> None:
        self._run: Any = None
        if not settings.uses_wandb:
            return
        before = list(folder.glob("wandb/offline-run-*"))
        self._run = self._ask(lambda: _begin(settings, folder, labels, run_id), 2 * _START_TIMEOUT + _TIMEOUT)
        if (run := self._run) is not None:
            step = 0 if run.offline else run.step  # of a run that the server knows: the step after its last
            for row in earlier:
                if row["update"] >= step:
                    self.log(row)
        if run is not None and run.offline:
            for replaced in before if self._run is not None else ():
                shutil.rmtree(replaced, ignore_errors=True)

    def log(self, row: dict[str, Any]) -> None:
        """Log the row of one update, under the same names as in metrics.jsonl."""
        if (run := self._run) is not None:
            self._ask(lambda: run.log(nan_to_none(row), step=row["update"]))

    def _ask(self, call: Callable[[], T], seconds: float | None = _TIMEOUT) -> T | None:
        """Return W&B's answer. If it fails, print so and continue without W&B: the run folder has everything."""
        try:
            return _answer(call, seconds)
        except BaseException as error:
            self._run = None
            if not isinstance(error, Exception):
                raise
            problem = (str(error) or repr(error)).splitlines()[0]
            print(f"W&B stopped ({problem:.300}); the run continues without it", file=sys.stderr)
            return None

    def log_transcripts(self, update: int, episodes: Iterable[dict[str, Any]]) -> None:
        """Log a table ``transcripts`` at an update: one row per episode, with its steps as one text."""
        if (run := self._run) is None:
            return
        import wandb

        table = wandb.Table([*_OF_EPISODE, "transcript"], allow_mixed_types=True)
        for episode in episodes:
            table.add_data(
                *(_cell(episode[name]) for name in _OF_EPISODE), "\n\n".join(map(step_text, episode["steps"]))
            )
        self._ask(lambda: run.log({"transcripts": table}, step=update))

    def finish(
        self,
        summary: dict[str, Any] | None = None,
        files: Iterable[Path] = (),
        root: Path = Path(),
        labels: Labels | None = None,
    ) -> None:
        """End the run, and upload ``files`` under their paths relative to ``root``. Without ``summary`` the run failed.

        ``labels`` updates tags and config: other studies may share the run by now.
        """
        if (run := self._run) is None:
            return

        def describe() -> None:
            if labels is not None:
                run.tags = _tags(labels)
                run.config.update(labels.config, allow_val_change=True)
            run.summary.update(summary or {})
            _attach(run, files, root)

        self._ask(describe)
        if self._run is not None:
            self._run = None
            self._ask(lambda: run.finish(exit_code=0 if summary is not None else 1), _finish_timeout(run))


def _cell(value: Any) -> Any:
    """Return the value of a table cell; the number of steps for the list of steps."""
    return len(value) if isinstance(value, list) else value


def log_table(
    settings: Tracking, folder: Path, labels: Labels, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]
) -> None:
    """Upload a table as a separate W&B run. Raises ``UserError`` if W&B fails in any way, or stops answering."""
    if not settings.uses_wandb:
        return
    try:
        run = _answer(lambda: _start_or_offline(settings, folder, labels), 2 * _START_TIMEOUT + _TIMEOUT)
        _answer(lambda: _log_table(run, name, columns, rows), _TIMEOUT)
        _answer(run.finish, _finish_timeout(run))
    except Exception as error:  # any type: W&B raises more than its own errors
        problem = (str(error) or repr(error)).splitlines()[0]
        raise UserError(
            f"tracking.mode={settings.mode}: W&B stopped ({problem:.300}); the {name} is not logged"
        ) from error


def _log_table(run: Any, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    import wandb

    run.log({name: wandb.Table(list(columns), [list(row) for row in rows], allow_mixed_types=True)})


def _answer(call: Callable[[], T], seconds: float | None) -> T:
    """Return W&B's answer. Raises what W&B raises, or ``TimeoutError`` after the time limit.

    After any error, and after Ctrl-C, W&B is torn down: otherwise its exit hook would block the end of the program.
    """
    try:
        return call_with_timeout(seconds, call)
    except BaseException:
        import wandb

        with suppress(Exception, SystemExit):
            call_with_timeout(_TEARDOWN_TIMEOUT, wandb.teardown)
        raise


def _finish_timeout(run: Any) -> float | None:
    """Return the time limit for the end of a run; None online, because an upload may take long."""
    return _TIMEOUT if run.offline else None


def _begin(settings: Tracking, folder: Path, labels: Labels, run_id: str) -> Any:
    """Return a W&B run whose x-axis is the update."""
    run = _start_or_offline(settings, folder, labels, run_id)
    run.define_metric("update", hidden=True)
    run.define_metric("*", step_metric="update")
    return run


def _start_or_offline(settings: Tracking, folder: Path, labels: Labels, run_id: str | None = None) -> Any:
    """Return a W&B run. If the server does not answer, print so and return an offline run."""
    try:
        return _start(settings, folder, labels, run_id)
    except UserError as error:
        if settings.mode != "online":
            raise
        print(f"{error}; tracking continues offline, `wandb sync` uploads it", file=sys.stderr)
        import wandb

        wandb.teardown()  # otherwise the first try would still hold the run ID
        return _start(replace(settings, mode="offline"), folder, labels, run_id)


def _start(settings: Tracking, folder: Path, labels: Labels, run_id: str | None = None) -> Any:
    """Return a W&B run; a run with the same ID is resumed. Raises ``UserError`` if W&B does not start."""
    os.environ.setdefault("WANDB_DISABLE_WEAVE", "true")  # W&B advertises it wherever openai is imported
    _find_homes(folder.absolute() / "wandb")
    import wandb

    if sweep := os.environ.pop("WANDB_SWEEP_ID", ""):  # with it, W&B would choose another ID at every session
        print(f"WANDB_SWEEP_ID={sweep}: ignored, the W&B ID of a run is its run ID", file=sys.stderr)
    try:
        return wandb.init(
            mode=settings.mode,
            project=settings.project,
            entity=settings.entity,
            id=run_id,
            resume=None if run_id is None else "allow",
            dir=folder,
            config=labels.config,
            name=labels.name[:_LONGEST_NAME],
            group=labels.group or None,
            job_type=labels.job_type,
            tags=_tags(labels),
            settings=wandb.Settings(silent=True, console="off", x_disable_stats=True, init_timeout=_START_TIMEOUT),
        )
    except (wandb.Error, ValueError, TypeError, OSError) as error:  # a malformed WANDB_ variable is a ValueError
        problem = " ".join(str(error).split())
        raise UserError(
            f"tracking.mode={settings.mode}: W&B does not start ({problem:.300}); choices: offline, disabled"
        ) from error


def _find_homes(folder: Path) -> None:
    """Give W&B the folder ``folder`` for each of its folders in which no file can be written."""
    from wandb import env

    config = os.environ.get(env.CONFIG_DIR) or "~/.config/wandb"
    homes = {env.DATA_DIR: env.get_data_dir(), env.CACHE_DIR: env.get_cache_dir(), env.CONFIG_DIR: config}
    for variable, home in homes.items():
        if not _is_usable(Path(home).expanduser()):
            if given := os.environ.get(variable):
                print(f"{variable}={given}: no file can be written there; W&B uses {folder}", file=sys.stderr)
            os.environ[variable] = str(folder)


def _is_usable(folder: Path) -> bool:
    """Return whether a file can be written in a folder, which may be missing. Permissions alone do not say so."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder) as file:
            file.write(bytes(_SPACE))
    except (OSError, ValueError):  # ValueError: a null byte in the name
        return False
    return True


def _tags(labels: Labels) -> tuple[str, ...]:
    """Return the distinct tags, cut to the length that W&B allows."""
    return tuple(dict.fromkeys(tag[:_LONGEST_TAG] for tag in labels.tags if tag))


def upload_cells(settings: Tracking, results: Path) -> int:
    """Upload every study cell of a results folder, and return their number.

    A run uploads the cells that point at it when it ends; this adds cells that were written later. Raises ``UserError``
    without cells, or if W&B refuses them.
    """
    import wandb

    cells = sorted((results / "studies").glob("*/*/*.json"))
    if not cells:
        raise UserError(f"{results}: no study cells to upload")
    try:
        run = _start(settings, results, Labels("study cells", "", "studies"), "studies")
        _attach(run, cells, results)
        run.finish()
    except wandb.Error as error:
        raise UserError(f"W&B project {settings.project}: cannot be written ({error})") from error
    return len(cells)


def download(project: str, results: Path) -> None:
    """Download the runs and study cells of a W&B project (``entity/project``) into a results folder.

    Complete runs of the folder stay. If a cell was uploaded several times, the newest is used. Raises ``UserError`` if
    the project cannot be read.
    """
    import wandb

    try:
        runs = list(wandb.Api().runs(project))
        files = [file for run in runs for file in run.files() if _is_of_results(file.name)]
        complete = {p.parent.name for p in results.glob("runs/*/run.json")}
        wanted = [f for f in files if f.name.split("/")[1] not in complete or not f.name.startswith("runs/")]
        # The newest of equal names is written last, and each run.json after the files that it lists.
        for file in sorted(wanted, key=lambda f: (f.name.endswith("/run.json"), f.updated_at, f.name)):
            file.download(root=str(results), replace=True).close()
    except (wandb.Error, OSError, ValueError) as error:
        raise UserError(f"W&B project {project}: cannot be read ({str(error).splitlines()[0]})") from error


def _is_of_results(name: str) -> bool:
    """Return whether a W&B file belongs into a results folder. Other names could point outside of the folder."""
    parts = name.split("/")
    return name.startswith(PLACES) and all(re.fullmatch(r"\w[\w.+-]*", part) for part in parts)


def _attach(run: Any, files: Iterable[Path], root: Path) -> None:
    """Let W&B upload files when the run ends. It gets relative links, so that nothing is copied."""
    for path in files:
        link = Path(run.dir) / path.relative_to(root)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.relpath(path.resolve(), link.parent.resolve()))
        run.save(str(link), base_path=run.dir, policy="end")
