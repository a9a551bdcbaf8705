"""The stored episodes of a run: the groups of its rollout batches, and the test episodes of its last policy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bepo.core.batch import RolloutBatch
from bepo.explore.advantages import strips
from bepo.explore.frames import read_rollouts
from bepo.explore.groups import Plain, groups, summaries
from bepo.explore.words import prompts_and_responses, tokenizer_of
from bepo.store.files import Corrupt
from bepo.store.json_files import read_object
from bepo.store.run_files import StoredRun

TEST = "test episodes"
_BOARD = re.compile(r"\bnow (.*?) step 0\b")
"""The first state in the compact prompt of a tiny model."""


@dataclass
class EpisodeGroup:
    """Episodes of one task. ``source`` is ``update 50`` or ``test episodes``."""

    source: str
    summaries: list[Plain]
    content: Plain


def episodes(run: StoredRun) -> Iterator[EpisodeGroup]:
    """Yield every stored group of episodes: first the test episodes, then the rollout batches by update."""
    kinds, rows = _kinds(run), run.transcripts()
    if rows:
        horizon = run.config["env"].get("horizon")
        yield from _groups(TEST, transcript_batch(rows, horizon), {row["task"]: row["kind"] for row in rows}, rows)
    tokenizer = tokenizer_of(run)
    for update in sorted(run.rollouts()):
        batch = read_rollouts(run, update)
        credit = strips(batch, run.config["credit"])
        gate = next((strip.parts["gate"] for strip in credit if "gate" in strip.parts), None)
        shown = groups(batch, credit, prompts_and_responses(batch, tokenizer))
        yield from _with_summaries(f"update {update}", batch, summaries(batch, gate, kinds), shown)


def _groups(
    source: str, batch: RolloutBatch, kinds: Mapping[str, str], rows: Sequence[Plain]
) -> Iterator[EpisodeGroup]:
    """Yield test episodes, each as a group of one episode without advantages."""
    steps = [step for row in rows for step in row["steps"]]
    words = [step["prompt"] for step in steps], [step["response"] for step in steps]
    yield from _with_summaries(source, batch, summaries(batch, None, kinds), groups(batch, [], words))


def _with_summaries(
    source: str, batch: RolloutBatch, rows: list[Plain], shown: Iterator[Plain]
) -> Iterator[EpisodeGroup]:
    of_group: list[list[Plain]] = [[] for _ in batch.task]
    for row, group in zip(rows, batch.trajectory_group.tolist()):
        of_group[group].append(row)
    for members, content in zip(of_group, shown):
        yield EpisodeGroup(source, members, content)


def transcript_batch(rows: Sequence[Mapping[str, Any]], horizon: int | None) -> RolloutBatch:
    """Return transcripts as a batch with one group per episode. An episode of ``horizon`` steps counts as truncated.

    Transcripts have no key of the first state; the text of the first prompt is used instead (see ``first_state``).
    Transcripts of older runs do not say whether a response was valid; it counts as valid if it has an action.
    """
    transitions = []
    for number, row in enumerate(rows):
        steps = row["steps"]
        states = [first_state(steps[0]), *(step["observation"] for step in steps)]
        for t, step in enumerate(steps):
            place = {"uid": number, "task": row["task"], "traj": 0, "t": t, "obs": states[t], "next": states[t + 1]}
            valid = step.get("valid", step["action"] is not None)
            got = {"r": step["reward"], "action": step["action"], "valid": valid, "done": None}
            transitions.append(place | got)
        failure = "truncation" if row.get("broken") or len(steps) == horizon else "failure"
        transitions[-1] |= {"done": "success" if row["success"] else failure, "task_score": row["task_score"]}
    return RolloutBatch.from_rows(transitions)


def first_state(step: Mapping[str, Any]) -> str:
    """Return the text of an episode's first state: the first prompt.

    The compact prompt of a tiny model has a board as one line, ``now # # P _ step 0``. It gets the lines of the next
    state, if that is as large a board.
    """
    match, lines = _BOARD.search(step["prompt"]), step["observation"].splitlines()
    cells = match[1].replace(" ", "") if match else ""
    if len(lines) < 2 or len(cells) != len(lines) * len(lines[0]) or len({*map(len, lines)}) > 1:
        return step["prompt"]
    width = len(lines[0])
    return "\n".join(cells[start : start + width] for start in range(0, len(cells), width))


def _kinds(run: StoredRun) -> dict[str, str]:
    """Return the type of each training task from the task sets of the results folder; empty without task sets."""
    kinds: dict[str, str] = {}
    for path in run.path.parent.parent.glob(f"task_sets/{run.config['env']['name']}-train-*.json"):
        with suppress(Corrupt, KeyError, TypeError, json.JSONDecodeError):
            kinds |= {task["id"]: task["kind"] for task in read_object(path, "task set")["tasks"] if task["kind"]}
    return kinds
