"""The checkpoints of a run that is being written: sealed folders, and what the run had written before each of them."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bepo.store.files import Corrupt, digest, digest_of_file, write_atomically
from bepo.store.folders import link_or_copy, make_space, seal_folder, set_aside
from bepo.store.json_files import field
from bepo.store.run_files import CONTENT, ROLLOUTS, STREAMS, TRANSCRIPTS, read_folder_of_run


class Checkpoints:
    """The checkpoints of a run, and the policy that is taken from the last one."""

    def __init__(self, identifier: str, path: Path) -> None:
        """``path`` is the folder of the run with this ID."""
        self.id, self.path = identifier, path

    def checkpoints(self) -> list[tuple[int, Path]]:
        """Return the update and the folder of each finished checkpoint, the newest first. Files are not checked."""
        numbered = ((path.name.removeprefix("checkpoint-"), path) for path in self.path.glob("checkpoint-*"))
        finished = ((int(number), path) for number, path in numbered if number.isdecimal() and path.is_dir())
        return sorted(finished, reverse=True)

    @contextmanager
    def new_checkpoint(self, update: int, keep: int = 2) -> Iterator[Path]:
        """Yield a folder to fill. It becomes a checkpoint when the block ends; the newest ``keep`` checkpoints stay.

        If the disk is too full for one more checkpoint, older ones are removed first, with a line on stderr. The newest
        is removed only with ``keep=0``. The new checkpoint always stays.
        """
        folder = self.path / f"checkpoint-{update}"
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        make_space([path for _, path in self.checkpoints()], keep)
        part.mkdir()
        try:
            yield part
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)  # a full disk needs the space
            raise
        rows = {stream: (self.path / f"{stream}.jsonl").read_bytes() for stream in self._streams()}
        lengths = {stream: {"bytes": len(data), "digest": digest(data)} for stream, data in rows.items()}
        kept = {name: digest_of_file(self.path / name) for name in self._kept()}
        seal_folder(part, CONTENT, run=self.id, update=update, rows=lengths, kept=kept)
        part.rename(folder)
        self.drop_checkpoints(max(keep, 1))

    def drop_checkpoints(self, keep: int = 0) -> None:
        """Remove all but the newest ``keep`` checkpoints."""
        for _, path in self.checkpoints()[keep:]:
            shutil.rmtree(path)

    def keep_policy(self, folder: Path) -> None:
        """Store a folder with the policy, in the format of transformers, as ``policy``.

        Files are hard links to those in ``folder``, or copies if the file system has no hard links.
        """
        part = self.path / "policy.part"
        for old in (part, self.path / "policy"):
            shutil.rmtree(old, ignore_errors=True)
        shutil.copytree(folder, part, copy_function=link_or_copy)
        seal_folder(part, CONTENT, run=self.id)
        part.rename(self.path / "policy")

    def rewind(self) -> tuple[int, Path] | None:
        """Return the newest intact checkpoint, and drop later rows and rollouts, which the run writes again.

        Damaged checkpoints are set aside with a line on stderr: nothing takes one for a checkpoint of the run any more.
        Without a checkpoint, return None and drop all rows. Raises ``Corrupt`` if all checkpoints are damaged, and
        changes nothing then.
        """
        refused: list[tuple[Path, Corrupt]] = []
        for update, path in self.checkpoints():
            try:
                content = self._intact(update, path)
            except Corrupt as error:
                refused.append((path, error))
                continue
            for damaged, problem in refused:
                aside = set_aside(damaged, self.path)
                print(f"{problem}; set aside as {aside.name}, continuing from update {update}", file=sys.stderr)
            self._truncate({stream: expected["bytes"] for stream, expected in content["rows"].items()})
            self._rewind_kept(update, content.get("kept"))
            return update, path
        if refused:
            raise Corrupt(f"{refused[0][1]}; no checkpoint is intact; remove {self.path} to train from the beginning")
        self._truncate({})
        self._rewind_kept(0, {})
        return None

    def _intact(self, update: int, path: Path) -> dict[str, Any]:
        """Return the seal of the checkpoint of an update.

        Raises ``Corrupt`` if anything changed, in its folder or in what the run had written before it, and if it is the
        checkpoint of another update. Older seals do not name their update; there is one row of ``metrics`` for each.
        """
        content = read_folder_of_run(path, self.id)
        for stream, expected in field(content, "rows", dict, path / CONTENT).items():
            file = self.path / f"{stream}.jsonl"
            if not file.exists() or digest(file.read_bytes()[: expected["bytes"]]) != expected["digest"]:
                raise Corrupt(f"{file}: rows from before {path.name} changed since it was written")
        made = content["rows"].get("metrics", {}).get("bytes", 0)
        rows = (self.path / "metrics.jsonl").read_bytes()[:made].count(b"\n") if made else 0
        if {content.get("update", update), rows} != {update}:
            raise Corrupt(f"{path}: is the checkpoint of update {content.get('update', rows)}, not of {update}")
        return content

    def _rewind_kept(self, update: int, sealed: Mapping[str, str] | None) -> None:
        """Remove rollouts and transcripts of later updates, which come again, and set aside those that changed.

        ``sealed`` has the digests of the files before the checkpoint; None: the seal is an older one without them. A
        file that is gone is named.
        """
        for name in sorted((sealed or {}).keys() - {*self._kept()}):
            print(f"{self.path / name}: is gone; the run goes on without it", file=sys.stderr)
        for name in self._kept():
            path, stem = self.path / name, Path(name).stem
            if sealed is None:
                if stem.isdecimal() and int(stem) > update:
                    path.unlink()
            elif name not in sealed:
                path.unlink()
            elif digest_of_file(path) != sealed[name]:
                aside = set_aside(path, self.path)
                print(f"{path}: changed since it was written; set aside as {aside.name}", file=sys.stderr)

    def _kept(self) -> list[str]:
        """Return the names of the rollouts and transcripts that are written so far."""
        rollouts = [str(path.relative_to(self.path)) for path in sorted((self.path / ROLLOUTS).glob("*.npz"))]
        return [*rollouts, *([TRANSCRIPTS] if (self.path / TRANSCRIPTS).exists() else [])]

    def _truncate(self, lengths: dict[str, int]) -> None:
        for stream in STREAMS:
            file = self.path / f"{stream}.jsonl"
            write_atomically(file, file.read_bytes()[: lengths.get(stream, 0)] if file.exists() else b"")

    def _streams(self) -> list[str]:
        return [stream for stream in STREAMS if (self.path / f"{stream}.jsonl").exists()]
