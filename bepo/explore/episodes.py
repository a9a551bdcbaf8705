"""The stored episodes of a run: the groups of its rollout batches, and the test episodes of its last policy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from bepo.core.batch import RolloutBatch
from bepo.explore.advantages import paper_part, strips
from bepo.explore.frames import read_rollouts
from bepo.explore.groups import Plain, groups, summaries
from bepo.store.archive import POLICIES
from bepo.store.files import Corrupt, folder_name
from bepo.store.json_files import read_object
from bepo.store.published import WARM_STARTS
from bepo.store.run_files import StoredRun

_PICTURE = re.compile(r"(?:<\|image_pad\|>|<image>)+")
_PLACES = ("policy/tokenizer.json", "checkpoint-*/policy/tokenizer.json")
_TOKENIZER = "tokenizer.json"
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
        shown = groups(batch, credit, prompts_and_responses(batch, tokenizer))
        yield from _with_summaries(
            f"update {update}", batch, summaries(batch, paper_part(credit, "gate"), kinds), shown
        )


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
    """Return transcripts as a batch with one group per episode.

    Transcripts have no key of the first state; the text of the first prompt is used instead (see ``first_state``).
    Transcripts of older runs do not say how an episode ended; one that failed in ``horizon`` steps counts as truncated.
    Nor do they say whether a response was valid; it counts as valid if it has an action.
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
        cut = row.get("broken") or row.get("overlong") or len(steps) == horizon
        end = "success" if row["success"] else "truncation" if cut else "failure"
        transitions[-1] |= {"done": row.get("end", end), "task_score": row["task_score"]}
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


def tokenizer_of(run: StoredRun) -> Tokenizer | None:
    """Return the tokenizer of a run: that in its folder, or of its published policy or warm start; None without one.

    A policy keeps the tokenizer of its warm start.
    """
    if run.path.is_dir():
        files = [path for place in _PLACES for path in sorted(run.path.glob(place))]
    else:
        start = (run.metadata.get("warm_start") or {}).get("name", "")
        places = (Path(WARM_STARTS) / folder_name(start, "warm start")) if start else None, Path(POLICIES) / run.id
        files = [path for place in places if place and (path := run.path.parent / place / _TOKENIZER).exists()]
    return Tokenizer.from_file(str(files[-1])) if files else None


def prompts_and_responses(batch: RolloutBatch, tokenizer: Tokenizer | None) -> tuple[list[str], list[str]] | None:
    """Return N prompts and N responses with special tokens; None without tokens or a tokenizer."""
    if tokenizer is None or batch.tokens is None:
        return None
    n = range(len(batch))
    prompts = tokenizer.decode_batch([batch.tokens.prompt(i).tolist() for i in n], skip_special_tokens=False)
    responses = tokenizer.decode_batch([batch.tokens.response(i).tolist() for i in n], skip_special_tokens=False)
    return [_PICTURE.sub("<image>", text) for text in prompts], responses
