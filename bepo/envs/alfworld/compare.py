"""Play games on the fast engine and on textworld with the same commands, and compare every step.

``python -m bepo.envs.alfworld.compare --games 50`` compares generated games; ``--data FOLDER`` compares original ones.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from bepo.core.errors import Parser, path_of, whole_number
from bepo.envs.alfworld.engine import CompiledGame, FastGame
from bepo.envs.alfworld.expert import Expert
from bepo.envs.alfworld.games import RunningGame
from bepo.envs.alfworld.generate import SPLITS, TASK_TYPES, generate
from bepo.envs.alfworld.textworld_engine import TextWorldGame
from bepo.store.files import digest

Row = tuple[str, str, tuple[str, ...], bool]
"""One step of a transcript: command, feedback, admissible commands, success."""
Case = tuple[str, dict[str, Any], dict[str, Any]]
"""A game: its name, the content of ``game.tw-pddl``, the content of ``traj_data.json``."""
MALFORMED = ("", "fly to moon", "go to", "take", "GO TO FRIDGE 1", "put", "examine", "look around", "open fridge 1 ")
"""Commands that no game understands."""


class EngineDifference(NamedTuple):
    """The result of comparing two engines."""

    games: int
    different: int  # number of games that differ
    fast_seconds: float
    other_seconds: float


def commands(
    game: Mapping[str, Any] | CompiledGame, traj_data: Mapping[str, Any], rng: Random, steps: int
) -> list[str]:
    """Return ``steps`` commands for a game: the expert's, random admissible, inadmissible and malformed ones.

    The commands go on after the goal is reached.
    """
    episode = FastGame(game)
    episode.reset()
    expert = Expert(episode, traj_data)
    seen, chosen = list(episode.admissible), []
    expert_share = rng.choice((0.0, 0.5, 0.8))
    for _ in range(steps):
        draw = rng.random()
        command = expert.command() if draw < expert_share else None
        if command is None:
            command = rng.choice(episode.admissible)
            if rng.random() < 0.15:
                command = rng.choice(
                    (rng.choice(MALFORMED), rng.choice(seen), command.replace("1", "2"), f" {command} ")
                )
        chosen.append(command)
        episode.step(command)
        seen += episode.admissible
    return chosen


def transcript(game: RunningGame, commands: Sequence[str]) -> list[Row]:
    """Play a game, and return all output of its engine; the first row is the start of the episode."""
    rows = [("", game.reset(), game.admissible, game.won)]
    for command in commands:
        feedback = game.step(command)
        rows.append((command, feedback, game.admissible, game.won))
    return rows


def transcript_digest(rows: Sequence[Row]) -> str:
    """Return 16 hex digits that identify a transcript."""
    return digest(json.dumps(rows), 16)


def first_difference(ours: Sequence[Row], theirs: Sequence[Row]) -> str | None:
    """Return the first step at which two transcripts of equal length differ, and how; None if they are equal."""
    for step, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        for part, x, y in zip(("command", "feedback", "admissible commands", "won"), a, b):
            if x != y:
                return f"step {step} ({a[0]!r}): {part}: {x!r} against {y!r}"
    return None


def cases(folder: Path | None, n: int, first: int = 0, max_receptacles: int | None = None) -> Iterator[Case]:
    """Yield ``n`` games: generated ones from number ``first`` on, or a sample of the games in ``folder``."""
    if folder is None:
        for i in range(first, first + n):
            game = generate(SPLITS[i // 6 % 3], i, TASK_TYPES, max_receptacles)
            yield game.name, game.game_file, game.traj_data
        return
    paths = sorted(folder.rglob("game.tw-pddl"))
    for path in Random(first).sample(paths, min(n, len(paths))):
        yield (
            str(path.parent),
            json.loads(path.read_text(encoding="utf-8")),
            json.loads((path.parent / "traj_data.json").read_text(encoding="utf-8")),
        )


def compare(cases: Iterator[Case], other: Callable[[dict[str, Any]], RunningGame], steps: int) -> EngineDifference:
    """Play each game on the fast engine and on another one, and print the differences.

    The fast engine plays twice: without memory, and after the same episode of the same game.
    """
    games, different, fast, slow = 0, 0, 0.0, 0.0
    for name, game_file, traj_data in cases:
        played = CompiledGame(game_file)
        chosen = commands(played, traj_data, Random(name), steps)
        times = [time.perf_counter()]
        ours = transcript(FastGame(game_file), chosen)
        times.append(time.perf_counter())
        theirs = transcript(other(game_file), chosen)
        times.append(time.perf_counter())
        difference = first_difference(ours, theirs)
        difference = difference or first_difference(transcript(FastGame(played), chosen), theirs)
        games, different = games + 1, different + (difference is not None)
        fast, slow = fast + times[1] - times[0], slow + times[2] - times[1]
        if difference is not None:
            print(f"{name}: {difference}", flush=True)
    return EngineDifference(games, different, fast, slow)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the engines, and return the exit status: 1 if a game differs, else 0."""
    parser = Parser(prog="python -m bepo.envs.alfworld.compare", description=__doc__)
    parser.add_argument("--games", type=whole_number(1, 100_000), default=50, help="number of games")
    parser.add_argument(
        "--first",
        type=whole_number(0, 10**9),
        default=0,
        help="number of the first generated game, or seed of the sample",
    )
    parser.add_argument("--steps", type=whole_number(1, 100_000), default=30, help="number of commands in each game")
    parser.add_argument(
        "--max-receptacles", type=whole_number(1, 1_000), help="receptacles of a generated scene; fewer load faster"
    )
    parser.add_argument("--data", type=path_of, help="a folder of original games (default: generate games)")
    options = parser.parse_args(arguments)
    sample = cases(options.data, options.games, options.first, options.max_receptacles)
    result = compare(sample, TextWorldGame, options.steps)
    print(
        f"{result.games} games, {result.games * options.steps} steps: {result.different} games differ; "
        f"textworld {result.other_seconds:.1f} s, fast {result.fast_seconds:.2f} s, "
        f"ratio {result.other_seconds / result.fast_seconds:.0f}"
    )
    return int(result.different > 0)


if __name__ == "__main__":
    sys.exit(main())
