"""Small stored runs through the real writer, for tests of the analysis."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bepo.core.batch import RolloutBatch
from bepo.runs.config import METHOD_VERSION
from bepo.store.cells import note_cell
from bepo.store.json_files import read_object, write_sealed
from bepo.store.runs import RunFolder, run_id

COMMIT = "c" * 40


def nested(flat: Mapping[str, object]) -> dict:
    """``{"credit.name": "grpo"}`` as nested dicts."""
    tree: dict = {}
    for name, value in flat.items():
        *parents, last = name.split(".")
        place = tree
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return tree


def in_block(block: int) -> dict[str, int]:
    """The settings of a run in a block: its weights, warm start and training have the block's seed."""
    return dict.fromkeys(("seed", "policy.seed", "policy.lora.seed", "policy.warm_start.seed"), block)


def rewrite(run: Path, change: Callable[[dict], object]) -> None:
    """Change what ``run.json`` says, in a way that vouches for itself."""
    metadata = read_object(run / "run.json", "run file")
    metadata.pop("digest", None)
    change(metadata)
    write_sealed(run / "run.json", metadata)


def damage(archive: Path) -> None:
    """Change a byte of the packed ``run.json`` of an archive. Its size and its time of change stay."""
    state, data = archive.stat(), bytearray(archive.read_bytes())
    with zipfile.ZipFile(archive) as file:
        packed = file.getinfo("run.json")
    data[packed.header_offset + 30 + len(packed.filename) + packed.compress_size // 2] ^= 1
    archive.write_bytes(data)
    os.utime(archive, ns=(state.st_atime_ns, state.st_mtime_ns))


def write_run(
    results: Path,
    study: str | Sequence[str],
    settings: Mapping[str, object],
    passes: Sequence[Sequence[float]],
    *,
    kinds: Sequence[str] | None = None,
    scores: Sequence[Sequence[float]] | None = None,
    tier: str = "laptop",
    started: str = "2026-01-01",
    dirty: bool = False,
    commit: str = COMMIT,
    task_set: str = "d1",
    versions: Mapping[str, int] | None = None,
    metrics: Mapping[str, float] | Sequence[Mapping[str, float]] = (),
    broken: int = 0,
    rollouts: Mapping[str, RolloutBatch] | None = None,
    transcripts: Sequence[dict] = (),
    updates: int = 2,
    solved_before: int = 0,
) -> RunFolder:
    """A complete run: ``settings`` are dotted config fields, ``passes`` the final successes (passes, tasks).

    ``metrics``: those of every update, or of each. Before training the policy solves the first ``solved_before`` tasks.
    """
    flat = {"env.name": "sokoban", "policy.name": "tiny", "model": "small", "seed": 0, "backend.name": "local"}
    config = nested(flat | {"credit.name": "gated_bepo"} | dict(settings))
    folder = RunFolder(results, run_id({"config": config, "extra": [tier, task_set, versions and dict(versions)]}))
    for name in [study] if isinstance(study, str) else study:
        note_cell(results, name, tier, [f"{k}={v}" for k, v in settings.items()], folder.id)
    session = {"started": started, "commit": commit, "dirty": dirty, "machine": {"cpu": "a processor"}}
    tasks = range(len(passes[0]))
    kinds = kinds or [""] * len(tasks)
    with folder.locked():
        folder.start(config, session)
        own = [metrics] * updates if isinstance(metrics, Mapping) else metrics or [{}] * updates
        rows = ({"update": u, "train/success": u / 10, **logged} for u, logged in enumerate(own, 1))
        folder.append("metrics", *rows)
        before = [float(i < solved_before) for i in tasks]
        rows = [("test", 0, 0, before, None), ("validation", updates, 0, [0.0] * len(tasks), None)]
        rows += [("test", updates, e, row, scores and scores[e]) for e, row in enumerate(passes)]
        for split, update, evaluation_seed, successes, score in rows:
            folder.append(
                "episodes",
                *(
                    {
                        "update": update,
                        "split": split,
                        "evaluation_seed": evaluation_seed,
                        "task": f"t{i}",
                        "kind": kinds[i],
                        "success": bool(successes[i]),
                        "task_score": float((score or successes)[i]),
                        "broken": update == updates and split == "test" and i < broken,
                    }
                    for i in tasks
                ),
            )
        for name, batch in (rollouts or {}).items():
            (folder.path / "rollouts").mkdir(exist_ok=True)
            batch.save(folder.path / "rollouts" / name)
        if transcripts:
            folder.write_transcripts(transcripts)
        folder.complete(
            {
                "tier": tier,
                "seed": config["seed"],
                "task_sets": {"test": {"tasks": len(tasks), "digest": task_set}},
                "identity": config | {"method_versions": dict(versions or {"run": METHOD_VERSION})},
                "result": {"success": 0.5, "updates": updates},
                "sessions": [session],
                "device": "cpu",
            }
        )
    return folder
