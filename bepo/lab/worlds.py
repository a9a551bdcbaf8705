"""Worlds whose states can be enumerated, and batches of them.

Sizes: S states and A actions of a world; B worlds of a batch, padded to the largest; F features of a state.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from bepo.core.errors import UserError
from bepo.core.settings import Settings, setting
from bepo.envs import Split, content_id, split_by_id
from bepo.envs.sokoban.engine import visible_cells
from bepo.envs.sokoban.render import text
from bepo.envs.sokoban.rooms import generate
from bepo.envs.sokoban.solver import Node, Solver

SUCCESS, FAILURE = -1, -2
"""Successors that end an episode, in ``World.next``."""
MOST_STATES = 20_000


@dataclass(frozen=True)
class World:
    """A finite task with one start. Its moves are deterministic; a batch of worlds can add slips."""

    name: str
    next: Int[np.ndarray, "S A"]  # the successor of each action: a state, ``SUCCESS`` or ``FAILURE``
    reward: Float[np.ndarray, "S A"]
    start: int
    coarse: list[Hashable]  # (S,) what a state looks like where it is aliased
    features: list[tuple[Hashable, ...]]  # (S,) F features of each state, equal ones are shared by all worlds
    listed: Bool[np.ndarray, "S A"] | None = None  # the actions that the policy may choose; None: all

    @cached_property
    def distance(self) -> Float[np.ndarray, " S"]:
        """Fewest steps from each state to success; NaN where there is no way."""
        distance = np.full(len(self.next), np.nan)
        reached, steps = (self.next == SUCCESS).any(1), 1
        while reached.any():
            distance[reached] = steps
            inside = np.where(self.next >= 0, distance[np.maximum(self.next, 0)] == steps, False)
            reached, steps = inside.any(1) & np.isnan(distance), steps + 1
        return distance


@dataclass
class WorldSettings(Settings):
    """What makes credit assignment hard in a batch of worlds."""

    horizon: int = setting(15, at_least=1, at_most=1000)
    """Number of steps after which an episode is truncated."""
    slip: float = setting(0.0, at_least=0, at_most=1)
    """Probability that a uniformly drawn action is executed in place of the chosen one."""
    aliasing: float = setting(0.0, at_least=0, at_most=1)
    """Share of states that show their coarse observation only."""
    aliased_policy: bool = True
    """Whether the policy sees what the estimators see; false: it sees the hidden states."""
    reward_noise: float = setting(0.0, at_least=0)
    """Standard deviation of Gaussian noise on every reward."""
    seed: int = setting(0, at_least=0)
    """Which states are aliased follows from this seed."""
    rewards: Literal["world", "success"] = setting("world", neutral=True)
    """What pays: what the world says, or 10 for success and nothing else."""

    group = "lab"


class Worlds:
    """B worlds padded to one size, with the dials that are set."""

    def __init__(self, worlds: Sequence[World], dials: WorldSettings | None = None) -> None:
        """Raises ``UserError`` for worlds with different numbers of actions or features."""
        self.worlds, self.dials = list(worlds), dials or WorldSettings()
        if len({(world.next.shape[1], len(world.features[0])) for world in worlds}) != 1:
            raise UserError("worlds of one batch must have equally many actions and features")
        b, s, a = len(worlds), max(len(world.next) for world in worlds), worlds[0].next.shape[1]
        self.n_worlds, self.n_states, self.n_actions = b, s, a
        self.start = np.array([world.start for world in worlds])
        self.next = np.full((b, s, a), s + 1)  # S: success, S + 1: failure
        self.reward, self.distance = np.zeros((b, s, a)), np.full((b, s + 2), np.nan)
        self.distance[:, s] = 0.0
        self.key = np.tile(np.arange(s), (b, 1))  # the state whose key each state has
        ids: dict[Hashable, int] = {}
        self.features = np.zeros((b, s, len(worlds[0].features[0])), int)
        self.listed = np.ones((b, s, a), bool)
        for i, world in enumerate(worlds):
            n = len(world.next)
            self.next[i, :n] = np.select([world.next == SUCCESS, world.next == FAILURE], [s, s + 1], world.next)
            self.reward[i, :n], self.distance[i, :n] = world.reward, world.distance
            self.key[i, :n] = self._keys(world, i)
            if world.listed is not None:
                self.listed[i, :n] = world.listed
            named = [[ids.setdefault(feature, len(ids)) for feature in row] for row in world.features]
            self.features[i, :n] = np.array(named)[self.key[i, :n] if self.dials.aliased_policy else slice(None)]
        if self.dials.rewards == "success":
            self.reward = 10.0 * self.won
        self.n_features = len(ids)
        self.policy_key = self.key if self.dials.aliased_policy else np.tile(np.arange(s), (b, 1))

    def _keys(self, world: World, number: int) -> list[int]:
        """Return for each state the first aliased state with its coarse observation, or the state itself."""
        rng, first = np.random.default_rng([self.dials.seed, number]), dict[Hashable, int]()
        aliased = rng.random(len(world.next)) < self.dials.aliasing
        return [first.setdefault(world.coarse[s], s) if aliased[s] else s for s in range(len(world.next))]

    @cached_property
    def share_features(self) -> bool:
        """Whether a feature of one world is one of another, so that policies generalise."""
        every = [np.unique(of_world[: len(world.next)]) for of_world, world in zip(self.features, self.worlds)]
        return len(np.unique(np.concatenate(every))) < sum(map(len, every))

    @property
    def won(self) -> np.ndarray:
        """Which moves succeed, (B, S, A) bool."""
        return self.next == self.n_states


def chain(length: int = 8, step_reward: float = -0.1, win: float = 10.0) -> World:
    """Return a corridor with a pivotal step: forward, back, or wait; waiting in the middle breaks the exit for good."""
    states = [(place, broken) for broken in (False, True) for place in range(length)]
    number = {state: i for i, state in enumerate(states)}
    moves = []
    for place, broken in states:
        at_end = place == length - 1
        ahead = number[place + 1, broken] if not at_end else number[place, broken] if broken else SUCCESS
        waited = number[place, broken or place == length // 2]
        moves.append((ahead, number[max(place - 1, 0), broken], waited))
    return _world(f"chain{length}", moves, 0, [place for place, _ in states], step_reward, win)


def tree(depth: int = 4, branching: int = 3, seed: int = 0, step_reward: float = 0.0, win: float = 10.0) -> World:
    """Return a tree with one pivotal step. Only below one branch at the root is the leaf with success."""
    rng = np.random.default_rng([seed, depth, branching])
    path = rng.integers(branching, size=depth)
    nodes: list[tuple[int, ...]] = [()]
    for node in nodes:
        if len(node) < depth - 1:
            nodes += [(*node, branch) for branch in range(branching)]
        if len(nodes) > MOST_STATES:
            raise UserError(f"tree: depth={depth}, branching={branching} make more than {MOST_STATES} states")
    number = {node: i for i, node in enumerate(nodes)}
    moves = [
        [
            number[*node, branch] if len(node) < depth - 1 else SUCCESS if (*node, branch) == tuple(path) else FAILURE
            for branch in range(branching)
        ]
        for node in nodes
    ]
    return _world(f"tree{depth}x{branching}-{seed}", moves, 0, [len(node) for node in nodes], step_reward, win)


def grid(seed: int = 0, size: int = 6, pits: int = 3, walls: int = 6, step_reward: float = -0.1) -> World:
    """Return a grid world with walls, pits that end the episode, and one goal, at least four moves from the start."""
    rng = np.random.default_rng([seed, size, pits, walls])
    while True:
        cells = rng.permutation(size * size).tolist()
        wall, pit, goal = set(cells[:walls]), set(cells[walls : walls + pits]), cells[walls + pits]
        free = [cell for cell in range(size * size) if cell not in wall | pit | {goal}]
        number = {cell: i for i, cell in enumerate(free)} | dict.fromkeys(pit, FAILURE) | {goal: SUCCESS}
        moves = [[number.get(there, number[cell]) for there in _neighbours(cell, size)] for cell in free]
        world = _world(f"grid{seed}", moves, 0, [cell % size for cell in free], step_reward, 10.0)
        far = np.flatnonzero((world.distance >= 4) & (world.distance <= 10))
        if len(far):
            return World(world.name, world.next, world.reward, int(far[0]), world.coarse, world.features)


def _neighbours(cell: int, size: int) -> Iterator[int]:
    """Yield the cells above, below, to the left and to the right; -9 stands for a place outside."""
    row, column = divmod(cell, size)
    for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        inside = 0 <= row + down < size and 0 <= column + right < size
        yield (row + down) * size + column + right if inside else -9


def sokoban(seed: int, dim: int = 6, min_solution: int = 3, horizon: int = 15) -> World | None:
    """Return a one-box Sokoban board of bepo with all its reachable states; None if its difficulty is another.

    Rewards are the engine's: -0.1 a step, +1 for the box on its target and +10 for the solution.
    """
    fixed, state = generate(seed, dim, 1, 30)
    solver = Solver(fixed, state)
    if solver.length is None or not min_solution <= solver.length <= horizon:
        return None
    states = list(solver.states())
    number = {node: i for i, node in enumerate(states)}
    moves = [
        [SUCCESS if solver.solved(there) else number[there] for there in solver.successors(node)] for node in states
    ]
    features = [_sokoban_features(solver, fixed.shape[1], node) for node in states]
    coarse: list[Hashable] = [player for player, _ in states]  # the box is hidden
    return _world(f"sokoban{seed}", moves, number[solver.start], coarse, -0.1, 11.0, features)


def _sokoban_features(solver: Solver, width: int, node: Node) -> tuple[Hashable, ...]:
    """Return the features that boards share: the places of box and target, and the walls around player and box."""
    player, (box,) = node
    (target,) = solver.targets
    box_at = (box // width - player // width, box % width - player % width)
    target_at = (target // width - box // width, target % width - box % width)
    side = (int(np.sign(target_at[0])), int(np.sign(target_at[1])))
    near, beyond = solver.walls(player), solver.walls(box)
    return (
        ("places", box_at, target_at),
        ("player's walls", box_at, side, near),
        ("box's walls", box_at, side, beyond),
        ("side", box_at, side),
        ("walls", near, side),
        ("all walls", box_at, near, beyond),
    )


def sokoban_rooms(n: int, first: int = 0, split: Split | None = None) -> list[World]:
    """Return the first ``n`` usable boards from the seed ``first`` on, of one split of bepo's Sokoban or of all."""
    rooms: list[World] = []
    while len(rooms) < n:
        if (split is None or _split(first) == split) and (world := sokoban(first)) is not None:
            rooms.append(world)
        first += 1
    return rooms


def _split(seed: int, dim: int = 6) -> Split:
    """Return the split of a board, which its content decides."""
    fixed, state = generate(seed, dim, 1, 30)
    return split_by_id(content_id(text(visible_cells(fixed, state)[None])[0]))


def _world(
    name: str,
    moves: Sequence[Sequence[int]],
    start: int,
    coarse: Sequence[Hashable],
    step_reward: float,
    win: float,
    features: Sequence[tuple[Hashable, ...]] | None = None,
) -> World:
    """Return a world; without ``features`` every state is a feature of its own (a tabular policy)."""
    following = np.array(moves)
    reward = step_reward + win * (following == SUCCESS)
    described = features or [((name, state),) for state in range(len(following))]
    return World(name, following, reward, start, list(coarse), list(described))


FAMILIES: dict[str, Callable[[range, int], list[World]]] = {
    "sokoban": lambda which, _: sokoban_rooms(len(which), which.start),
    "sokoban_train": lambda which, _: sokoban_rooms(len(which), which.start, "train"),
    "grid": lambda which, _: [grid(seed) for seed in which],
    "chain": lambda which, _: [chain(4 + more) for more in which],
    "tree": lambda which, _: [tree(seed=seed) for seed in which],
}
"""Families of worlds: each returns the worlds with these numbers, for episodes of at most so many steps."""
