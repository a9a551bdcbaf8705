"""Success by task type, before training and at the newest evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from bepo.explore.groups import Plain
from bepo.store.run_files import StoredRun


def whole_episodes(run: StoredRun) -> list[Plain]:
    """Return the rows of evaluation episodes; empty if episodes are missing, because the others are a biased sample."""
    return [] if run.metadata.get("result", {}).get("missing") else run.episodes()


def types(run: int, rows: Sequence[Mapping[str, Any]]) -> list[Plain]:
    """Return the success on test tasks by task type, before training and at the newest evaluation."""
    tests = [row for row in rows if row["split"] == "test"]
    if not tests:
        return []
    last = max(row["update"] for row in tests)
    kinds = sorted({row.get("kind", "") for row in tests})
    entries = []
    for kind in [None, *kinds] if len(kinds) > 1 else [None]:
        of_kind = [row for row in tests if kind in (None, row.get("kind", ""))]
        before = [row["success"] for row in of_kind if row["update"] == 0]
        after = [row["success"] for row in of_kind if row["update"] == last]
        if after:
            rates = {"before": fmean(before) if before else None, "after": fmean(after)}
            entries.append({"run": run, "kind": kind or "", "episodes": len(after), "update": last, **rates})
    return entries
