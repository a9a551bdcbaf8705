"""``python -m benchmarks.first_turn``: what SmolLM2 does without training, for each style of prompt.

The first prompt of 128 test tasks gets one response (temperature 1). Readable: the response has an action in the form
that the prompt asks for. Nearer: the expert needs fewer steps after it. Constrained responses are admissible actions;
for comparison, an action drawn evenly from the admissible ones.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch

from bepo.core.errors import exit_code
from bepo.envs import Environment, environments
from bepo.policies import policies
from bepo.rollouts.agent import Agent
from bepo.rollouts.collect import EpisodeBatch, Sample, Sampling
from bepo.rollouts.task_sets import task_set

STYLES = {  # the agent's settings, and the largest number of tokens of a free response
    "compact": ({"style": "compact"}, 16),
    "brief": ({"style": "brief"}, 16),
    "brief, actions not listed": ({"style": "brief", "list_actions": False}, 16),
    "brief with a reason": ({"style": "brief", "reasoning": True}, 96),
    "full": ({"style": "full"}, 256),
}
FREE_ONLY = ("brief with a reason", "full")  # a response that is an action has no room for a reason or tags
ENVIRONMENTS = {"sokoban": {"min_solution": 3, "rendering": "cells"}, "alfworld": {}}


def environment(name: str) -> Environment:
    """Return an environment with the settings of tier desktop, or its defaults where that tier has none."""
    return environments.make(name, **ENVIRONMENTS[name])


def first_turn(env: Environment, style: str, constrained: bool, tasks: int) -> tuple[float, float]:
    """Return the shares of first responses that are readable, and that bring the task nearer."""
    settings, tokens = STYLES[style]
    policy: Any = policies.make("smollm2", constrained=constrained, max_response_length=tokens, max_prompt_length=2048)
    agent = Agent(history_length=0, **settings)
    drawn = policy.build(env, agent, "cpu")
    return shares(env, agent, tasks, lambda prompts: drawn.sample(prompts.texts, prompts.choices, Sampling(), 0))


def by_chance(env: Environment, tasks: int) -> tuple[float, float]:
    """Return the shares for actions drawn evenly from the admissible ones."""
    rng = np.random.default_rng(0)

    def draw(prompts: Any) -> list[Sample]:
        return [Sample([0], [0], [0.0], str(rng.choice(choices))) for choices in prompts.choices]

    return shares(env, Agent(style="brief", history_length=0), tasks, draw)


def shares(env: Environment, agent: Agent, tasks: int, respond: Any) -> tuple[float, float]:
    """Take the first step of the first test tasks, and return the shares of readable and of good actions."""
    places = [(task, g, 0) for g, task in enumerate(task_set(env, "test", tasks).tasks)]
    with EpisodeBatch(env, agent, places, needs=("expert_steps",)) as episodes:
        prompts = episodes.prompts()
        episodes.step(prompts, respond(prompts))
        rows = episodes.rows
    nearer = [row["next_expert_steps"] < row["expert_steps"] for row in rows]
    return float(np.mean([row["valid"] for row in rows])), float(np.mean(nearer))


def main() -> int:
    """Print a table for each environment."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_turn", description=__doc__.splitlines()[0])
    parser.add_argument("--env", nargs="*", default=list(ENVIRONMENTS), choices=list(ENVIRONMENTS))
    parser.add_argument("--tasks", type=int, default=128)
    options = parser.parse_args()
    torch.set_num_threads(1)
    return exit_code(lambda: _print(options.env, options.tasks))


def _print(names: list[str], tasks: int) -> None:
    for name in names:
        env = environment(name)
        print(f"| {name}, {tasks} tasks | responses | readable | nearer | seconds |\n|---|---|---|---|---|")
        readable, nearer = by_chance(env, tasks)
        print(f"| by chance | an admissible action | {readable:.0%} | {nearer:.0%} | |", flush=True)
        for style in STYLES:
            for constrained in [False] if style in FREE_ONLY else [True, False]:
                start = time.process_time()
                readable, nearer = first_turn(env, style, constrained, tasks)
                what, seconds = "constrained" if constrained else "free", time.process_time() - start
                print(f"| {style} | {what} | {readable:.0%} | {nearer:.0%} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
