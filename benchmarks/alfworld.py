"""ALFWorld: generated games, continuations per second, and the times of both engines on the same games and commands."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from bepo.core.errors import Missing
from bepo.envs.alfworld.compare import commands, transcript, transcript_digest
from bepo.envs.alfworld.engine import FastGame
from bepo.envs.alfworld.games import RunningGame
from bepo.envs.alfworld.generate import SPLITS, GeneratedGame, generate
from bepo.envs.alfworld.textworld_engine import TextWorldGame


class EngineTimes(NamedTuple):
    """CPU seconds of an engine, which depend less on other load than elapsed time does."""

    load: float  # for loading a game and resetting it
    step: float
    digest: str  # of all transcripts


def alfworld(games: int = 6, steps: int = 30, generated: int = 300, continuations: int = 100) -> None:
    """Print generated games per second, steps of continuations per second, and the times of both engines."""
    generate("train", 0)
    start = time.process_time()
    made = [generate(split, n) for split in SPLITS for n in range(generated)]
    print(f"\nALFWorld: {len(made) / (time.process_time() - start):.0f} generated games per second")
    sample = [generate("train", n) for n in range(1000, 1000 + games)]
    once, often = (_steps_per_second(sample, n) for n in (1, continuations))
    print(
        f"fast engine, random commands to the end of 50 steps: {once:,.0f} steps per second in one episode of a game, "
        f"{often:,.0f} in {continuations} continuations of its start (ratio {often / once:.1f})"
    )
    chosen = [commands(game.game_file, game.traj_data, Random(n), steps) for n, game in enumerate(sample)]
    times = {"fast": _times(FastGame, sample, chosen)}
    try:
        times["textworld"] = _times(TextWorldGame, sample, chosen)
    except (Missing, ImportError):
        print("textworld is not installed (pip install 'bepo[alfworld]'): no ratios")
    slowest = list(times.values())[-1]
    print(f"{'engine':10} {'load+reset':>11} {'per step':>10} {'ratio':>7}  transcripts")
    for name, engine in times.items():
        ratio = slowest.step / engine.step
        print(f"{name:10} {1e3 * engine.load:8.1f} ms {1e3 * engine.step:7.2f} ms {ratio:6.0f}x  {engine.digest}")


def _steps_per_second(sample: Sequence[GeneratedGame], continuations: int, length: int = 50) -> float:
    """Return the steps per CPU second of random episodes, which start where a game does."""
    seconds = 0.0
    for number, game in enumerate(sample):
        first, rng = FastGame(game.game_file), Random(number)
        first.reset()
        start = time.process_time()
        for _ in range(continuations):
            episode = first.copy()
            for _ in range(length):
                episode.step(rng.choice(episode.admissible))
        seconds += time.process_time() - start
    return len(sample) * continuations * length / seconds


def _times(
    engine: Callable[[dict[str, Any]], RunningGame], games: Sequence[GeneratedGame], chosen: Sequence[Sequence[str]]
) -> EngineTimes:
    loading, stepping, rows = 0.0, 0.0, []
    for game, game_commands in zip(games, chosen):
        start = time.process_time()
        running = engine(game.game_file)
        running.reset()
        loaded = time.process_time()
        for command in game_commands:
            running.step(command)
        loading, stepping = loading + loaded - start, stepping + time.process_time() - loaded
        rows += transcript(engine(game.game_file), game_commands)
    return EngineTimes(loading / len(games), stepping / max(sum(map(len, chosen)), 1), transcript_digest(rows))
