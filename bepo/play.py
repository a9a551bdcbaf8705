"""``python -m bepo.play ENV [field=value ...]``: play a task in the terminal, or watch the expert play it.

Answer with the number or the words of an action. ``?`` asks the expert. ``q`` or the end of the input stops.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import get_args

import numpy as np
from jaxtyping import UInt8

from bepo.core.batch import Terminal
from bepo.core.errors import Parser, UserError, exit_code, whole_number
from bepo.core.phases import shown
from bepo.core.plugins import without_plugins
from bepo.core.registry import assignments
from bepo.envs import IMAGE, Environment, Episodes, Observation, Split, Task, environments, started
from bepo.store.files import digest

Player = Callable[[Environment, Episodes], str | None]
"""Chooses the next action of episode 0, or None to stop."""
_MOST_TASKS = 100_000  # some environments have tasks without end
_WIDTH = 96  # the largest number of columns of an image


def main(arguments: list[str] | None = None) -> int:
    """Play one episode. Return the exit status: 0, or 2 for bad input."""
    parser = Parser(prog="python -m bepo.play", description=__doc__)
    parser.add_argument("env", help=f"one of {', '.join(environments())}")
    parser.add_argument("settings", nargs="*", default=[], metavar="field=value", help="settings of the environment")
    parser.add_argument("--split", choices=get_args(Split), default="train")
    number = whole_number(0, _MOST_TASKS)
    parser.add_argument("--task", type=number, default=0, metavar="N", help="number of the task in its split, from 0")
    players = parser.add_mutually_exclusive_group()
    players.add_argument("--expert", action="store_true", help="show the expert's solution")
    players.add_argument("--policy", metavar="NAME", help="watch an untrained policy choose among the actions: smollm2")
    options = parser.parse_intermixed_args(arguments)
    return exit_code(lambda: _play(options))


def _play(options: argparse.Namespace) -> None:
    try:
        settings = without_plugins(options.settings)
        env = environments.make(options.env, **assignments(settings))
        task = _task(env, options.split, options.task)
        print(f"{env.name}, {options.split} task {options.task} ({task.kind or task.id})\n{env.prompt.rules}\n")
        if options.expert and not env.has_expert:
            raise UserError(f"--expert: env={env.name} has no expert")
        player = ask_policy(env, options.policy) if options.policy else ask_expert if options.expert else ask_person
        with started(env, [task]) as episodes:
            play(env, episodes, player)
    except KeyboardInterrupt:
        print("\nstopped")


def play(env: Environment, episodes: Episodes, player: Player) -> None:
    """Play episode 0, and print every observation, action and reward."""
    if episodes.instructions[0]:
        print(f"Your task: {episodes.instructions[0]}\n")
    taken, total, task_score, terminal = 0, 0.0, 0.0, Terminal.NONE
    while taken < env.horizon and terminal == Terminal.NONE:
        print_observation(episodes.observations[0])
        print(f"\nstep {taken + 1} of {env.horizon}")
        action = player(env, episodes)
        if action is None:
            print(f"stopped: {_summary(taken, total, task_score)}")
            return
        step = episodes.step({0: action})[0]
        taken, total = taken + 1, total + step.reward
        task_score, terminal = step.task_score, step.terminal
        print(f"{action}: reward {step.reward:g}\n")
    print_observation(episodes.observations[0])
    ending = "out of steps" if terminal == Terminal.NONE else terminal.name.lower()
    print(f"\n{ending}: {_summary(taken, total, task_score)}")


def ask_expert(env: Environment, episodes: Episodes) -> str | None:
    """Return the expert's action."""
    return episodes.expert(0)


def ask_policy(env: Environment, name: str) -> Player:
    """Return a player that samples from an untrained policy, restricted to the admissible actions.

    Raises ``UserError`` for a policy without weights of its own, and where actions are free text.
    """
    from bepo.policies import policies
    from bepo.rollouts.agent import Agent
    from bepo.rollouts.collect import Overlong, Sampling

    settings = policies.make(name, constrained=True)
    if settings.served or settings.weights is None:
        raise UserError(f"--policy={name}: has no weights that can play; choices: smollm2, pretrained")
    if env.free_text:
        raise UserError(f"--policy={name}: chooses from a list of actions; {env.free_text}")
    agent = Agent(style="brief", history_length=0)
    with shown():
        policy = settings.build(env, agent, "cpu")

    def ask(env: Environment, episodes: Episodes) -> str | None:
        observation = episodes.observations[0]
        prompt = agent.prompt(env.prompt, episodes.instructions[0], observation, [])
        seed = int(digest(prompt, 8), 16)
        (sample,) = policy.sample([prompt], [observation.admissible], Sampling(), seed, [observation.image])
        if isinstance(sample, Overlong):
            raise sample
        action = agent.parse(env, sample.text).action
        print(f"{name} writes {sample.text!r} (probability {np.exp(sum(sample.logprobs)):.2f})")
        return action

    return ask


def ask_person(env: Environment, episodes: Episodes) -> str | None:
    """Print the actions and ask until the answer is one of them. Return None if the person stops."""
    actions = episodes.observations[0].admissible
    places = {str(n): action for n, action in enumerate(actions, start=1)}
    if any(action.isdecimal() for action in actions):  # then a number is the word of an action
        places = {}
    print("  ".join(f"{n} {action}" for n, action in places.items()) or "  ".join(actions))
    for answer in _answers():
        if answer == "?":
            print(f"the expert: {(env.has_expert and episodes.expert(0)) or 'knows no solution from here'}")
            continue
        action = places.get(answer) if answer.isdecimal() and places else env.parse_action(answer)
        if action is not None:
            return action
        numbers = f"a number from 1 to {len(places)}, " if places or not actions else ""
        print(f"{answer!r} is not an action; choices: {numbers}the words of an action, ?, q")
    return None


def print_observation(observation: Observation) -> None:
    """Print the text of an observation, with its image as coloured blocks."""
    before, _, after = observation.text.partition(IMAGE)
    print(before if observation.image is None else f"{before}{blocks(observation.image)}{after}")


def blocks(image: UInt8[np.ndarray, "H W 3"]) -> str:
    """Return an image as half blocks in true colours. A line of text shows two rows of pixels.

    An image wider than 96 pixels is scaled down: every second, third, ... pixel is shown.
    """
    stride = -(-image.shape[1] // _WIDTH)
    pixels = image[::stride, ::stride]
    lines = []
    for upper, lower in zip(pixels[0::2], pixels[1::2]):
        cells = ("\x1b[38;2;%d;%d;%dm\x1b[48;2;%d;%d;%dm▀" % (*u, *w) for u, w in zip(upper, lower))  # noqa: UP031
        lines.append("".join(cells) + "\x1b[0m")
    return "\n".join(lines)


def _task(env: Environment, split: Split, number: int) -> Task:
    tasks = list(islice(env.tasks(split), number + 1))
    if len(tasks) <= number:
        raise UserError(f"--task {number}: {env.name} has {len(tasks)} {split} tasks, counted from 0")
    return tasks[number]


def _answers() -> Iterator[str]:
    """Yield the lines of standard input that are not blank, until ``q`` or the end of the input."""
    while True:
        print("> ", end="", flush=True)
        line = sys.stdin.readline()
        if not sys.stdin.isatty():
            print(line.strip())
        if not line or line.strip() == "q":
            return
        if line.strip():
            yield line.strip()


def _summary(taken: int, total: float, task_score: float) -> str:
    steps = "1 step" if taken == 1 else f"{taken} steps"
    return f"score {task_score:g}, return {total:g} after {steps}"


if __name__ == "__main__":
    sys.exit(main())
