"""Environment workers: if one dies, another continues its episodes; a slow one delays only its own episodes."""

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import ray

from bepo.envs.sokoban import Sokoban
from bepo.rollouts.agent import Agent
from bepo.rollouts.collect import EpisodeBatch, Sample
from bepo.rollouts.task_sets import task_set
from bepo.training.verl.episodes import Episode, EpisodeWorkers

RESPONSES = ("up", "left", "down", "right")


@dataclass
class Troubled(Sokoban):
    """Sokoban that once, at its third step, ends its process, and whose step "down" may be slow."""

    folder: str = ""
    seconds: float = 0.0
    steps: int = 0

    def start(self, tasks):
        episodes = super().start(tasks)
        plain = episodes.step

        def step(actions):
            self.steps += 1
            died = Path(self.folder) / "died"
            if self.steps == 3 and not died.exists():
                died.touch()
                os._exit(1)
            if "down" in actions.values():
                time.sleep(self.seconds)
            return plain(actions)

        episodes.step = step
        return episodes


@pytest.fixture(scope="module")
def cluster():
    ray.init(address="local", num_cpus=4, include_dashboard=False, object_store_memory=100_000_000, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def agent():
    return Agent(style="compact", history_observations=False)


@pytest.fixture(scope="module")
def tasks():
    return task_set(Sokoban(min_solution=5), "train", 2).tasks


def launched(env, agent, n):
    workers = EpisodeWorkers.launch(env, agent, n)
    ray.get([w.__ray_ready__.remote() for w in workers.handles])
    return workers


def end(workers):
    for worker in workers.handles:
        ray.kill(worker)


async def play(workers, key, task, responses=RESPONSES):
    episode = Episode(workers, key, task, 0, 0)
    prompts, rows = [(await episode.start()).text], []
    for text in responses:
        row, prompt = await episode.step(text)
        rows.append(row)
        prompts.append(prompt and prompt.text)
    return rows, prompts, episode.restarts


def test_a_dead_worker_is_replaced_and_the_episode_goes_on(cluster, agent, tasks, tmp_path):
    workers = launched(Troubled(folder=str(tmp_path)), agent, 1)
    rows, prompts, restarts = asyncio.run(play(workers, "a", tasks[0]))
    end(workers)
    assert (tmp_path / "died").exists() and restarts >= 1
    running = EpisodeBatch(Sokoban(), agent, [(tasks[0], 0, 0)])
    for text, prompt in zip(RESPONSES, prompts):
        prompts = running.prompts()
        assert prompts.texts == [prompt]
        running.step(prompts, [Sample([], [], [], text)])
    names = rows[0].keys()
    assert {"obs", "next", "r", "done", "valid", "task_score", "t"} <= names
    np.testing.assert_equal(rows, [{name: row[name] for name in names} for row in running.rows])


def test_rows_say_what_the_expert_needs_where_it_is_asked(cluster, agent, tasks, tmp_path):
    workers = launched(Sokoban(), agent, 1)

    async def asked():
        episode = Episode(workers, "asked", tasks[0], 0, 0, needs=["expert_steps"])
        await episode.start()
        return (await episode.step("up"))[0]

    row = asyncio.run(asked())
    end(workers)
    assert row["expert_steps"] == tasks[0].data["solution_length"]
    assert (
        abs(row["next_expert_steps"] - row["expert_steps"]) <= 1 or row["next_expert_steps"] != row["next_expert_steps"]
    )


def test_a_slow_episode_holds_up_only_its_own_worker(cluster, agent, tasks, tmp_path):
    (tmp_path / "died").touch()
    workers = launched(Troubled(folder=str(tmp_path), seconds=3.0), agent, 2)

    async def both():
        slow = asyncio.create_task(play(workers, "slow", tasks[0], ["down"]))
        quick = Episode(workers, "quick", tasks[1], 0, 0)
        quick._first = 1
        await quick.start()
        await quick.step("up")
        waiting = not slow.done()
        await slow
        return waiting

    assert asyncio.run(both())
    end(workers)
