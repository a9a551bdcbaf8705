"""Sokoban: the engine (compared with recordings of gym-sokoban), boards, solver, renderings, the environment."""

import json
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bepo.core.batch import Terminal
from bepo.core.errors import UserError
from bepo.envs import split_by_id
from bepo.envs.sokoban import DIRECTIONS, Sokoban, render
from bepo.envs.sokoban.engine import BOX, BOX_ON_TARGET, PLAYER, TARGET, WALL, Boards
from bepo.envs.sokoban.rooms import generate
from bepo.envs.sokoban.solver import Solver
from tests.command import python
from tests.conftest import DATA

EPISODES = json.loads((DATA / "sokoban_episodes.json").read_text(encoding="utf-8"))["episodes"]


def test_every_recorded_gym_sokoban_step_in_one_batch():
    """Reward, done, state and tiny picture of 80 episodes, all boards stepped together."""
    fixed, state = (np.array([e[k] for e in EPISODES]) for k in ("room_fixed", "room_state"))
    boards, alive = Boards(fixed, state), np.arange(len(EPISODES))
    steps = 0
    for t in range(15):
        alive = alive[[t < len(EPISODES[i]["actions"]) for i in alive]]
        reward, solved = boards.step(np.array([EPISODES[i]["actions"][t] for i in alive]), alive)
        for i, r, done in zip(alive, reward, solved):
            assert r == pytest.approx(EPISODES[i]["rewards"][t], abs=1e-9)
            assert (done or t == 14) == EPISODES[i]["dones"][t]
            np.testing.assert_array_equal(boards.state[i], EPISODES[i]["states"][t])
            steps += 1
    assert steps == 936
    for i, episode in enumerate(EPISODES):
        np.testing.assert_array_equal(render.tiny(boards.cells[i : i + 1])[0], episode["final_tiny_rgb"])
        assert episode["all_boxes_on_target"] == bool((boards.state[i] == BOX_ON_TARGET).sum())


@given(seed=st.integers(0, 10**6), boxes=st.integers(1, 2), actions=st.lists(st.integers(0, 8), max_size=25))
def test_play_keeps_the_room_and_its_pieces(seed, boxes, actions):
    fixed, state = generate(seed, dim=7, boxes=boxes)
    boards = Boards(fixed[None], state[None])
    for action in actions:
        boards.step(np.array([action]))
        now = boards.state[0]
        assert (now == PLAYER).sum() == 1
        assert np.isin(now, (BOX, BOX_ON_TARGET)).sum() == boxes
        np.testing.assert_array_equal(now == WALL, fixed == WALL)
        assert (fixed[now == BOX_ON_TARGET] == TARGET).all() and (fixed[now == BOX] != TARGET).all()


@pytest.mark.parametrize("seed", range(30))
def test_the_solvers_plan_wins_in_exactly_its_length(seed):
    fixed, state = generate(seed, dim=6, boxes=1 + seed % 2)
    solver, boards = Solver(fixed, state), Boards(fixed[None], state[None])
    assert solver.length >= 1
    for left in range(solver.length, 0, -1):
        _, solved = boards.step(np.array([solver.action(boards.state[0])]))
        assert solved[0] == (left == 1)
    assert solver.action(boards.state[0]) is None


def test_solver_lengths_equal_brute_force():
    """The solver equals exhaustive play with the engine; the two share no code."""
    for seed in range(12):
        fixed, state = generate(seed)
        frontier, depth, seen, solvable = [state], 0, {state.tobytes()}, False
        while not solvable:
            depth += 1
            boards = Boards(np.repeat(fixed[None], 4 * len(frontier), 0), np.repeat(np.array(frontier), 4, 0))
            _, solved = boards.step(np.tile([1, 2, 3, 4], len(frontier)))
            solvable = solved.any()
            frontier = []
            for s in boards.state:
                if s.tobytes() not in seen:
                    seen.add(s.tobytes())
                    frontier.append(s.copy())
        assert Solver(fixed, state).length == depth


def test_dead_ends_have_no_action():
    """A box in a corner off target."""
    state = np.array([[0] * 5, [0, 4, 5, 1, 0], [0, 1, 1, 2, 0], [0] * 5])
    fixed = np.where(np.isin(state, (4, 5)), 1, state)
    solver = Solver(fixed, state)
    assert solver.length is None and solver.action(state) is None


def test_rooms_do_not_depend_on_the_process():
    code = "from bepo.envs.sokoban.rooms import generate; print([generate(s)[1].tolist() for s in range(20)])"
    first, second = (python("-c", code, PYTHONHASHSEED=seed) for seed in ("0", "1"))
    assert first.returncode == second.returncode == 0 and first.stdout == second.stdout != ""


def test_renderings():
    fixed, state = generate(3)
    boards = Boards(fixed[None], state[None])
    text = render.text(boards.cells)[0]
    assert [len(row) for row in text.split("\n")] == [6] * 6
    for parsed, expected in zip(render.parse(text), (fixed, state)):
        np.testing.assert_array_equal(parsed, expected)
    picture = render.rgb(boards.cells)
    assert picture.shape == (1, 96, 96, 3) and picture.dtype == np.uint8
    tiles = {s: render.rgb(np.full((1, 1, 1), i))[0].tobytes() for i, s in enumerate(render.SYMBOLS)}
    assert len(set(tiles.values())) == len(render.SYMBOLS)
    for r, row in enumerate(text.split("\n")):
        for c, symbol in enumerate(row):
            assert picture[0, 16 * r : 16 * r + 16, 16 * c : 16 * c + 16].tobytes() == tiles[symbol]


def test_cells_leave_out_the_outer_walls_and_keep_the_state():
    tasks = list(islice(Sokoban().tasks("train"), 2))
    rows, cells = (Sokoban(rendering=kind).start(tasks).observations for kind in ("rows", "cells"))
    for whole, inner in zip(rows, cells):
        expected = [" ".join(row[1:-1]) for row in whole.text.split("\n")[1:-1]]
        assert inner.text.split("\n") == expected and inner.key == whole.key == whole.text


def test_player_on_target_survives_the_text():
    text = "#####\n#SX_#\n#####"
    fixed, state = render.parse(text)
    assert render.text(Boards(fixed[None], state[None]).cells) == [text]


def test_tasks_are_distinct_solvable_and_split_by_board():
    env = Sokoban(min_solution=3)
    ids = {}
    for split in ("train", "validation", "test"):
        tasks = list(islice(env.tasks(split), 40))
        ids[split] = {t.id for t in tasks}
        assert len(ids[split]) == 40
        assert all(split_by_id(t.id) == split for t in tasks)
        assert all(3 <= t.data["solution_length"] <= env.horizon for t in tasks)
    assert not ids["train"] & ids["test"] and not ids["train"] & ids["validation"]


def test_an_experts_episode():
    env = Sokoban()
    task = next(t for t in env.tasks("train") if t.data["solution_length"] == 5)
    episodes, rewards = env.start([task, task]), []
    for _ in range(5):
        step = episodes.step({1: episodes.expert(1)})[1]
        rewards.append(step.reward)
    assert step.terminal == Terminal.SUCCESS and step.task_score == 1.0
    assert sum(rewards) == pytest.approx(10 + 1 - 0.1 * 5)
    assert episodes.observations[0].text == task.data["board"]  # the other episode did not move
    idle = episodes.step({0: None})[0]
    assert idle.reward == pytest.approx(-0.1) and idle.observation.text == task.data["board"]


@pytest.mark.parametrize("text, action", [("up", "up"), ("Go LEFT now", "left"), ("down or up", "up"), ("jump", None)])
def test_projection(text, action):
    assert Sokoban().parse_action(text) == action
    assert action is None or action in DIRECTIONS


def test_boards_that_are_too_rare_are_said_to_be(monkeypatch):
    monkeypatch.setattr("bepo.envs.sokoban._MOST_SEEDS_IN_VAIN", 30)
    with pytest.raises(UserError, match=r"env.dim=.* 30 takes 15 \(env.min_solution\) to 15 \(env.horizon\)"):
        next(Sokoban(min_solution=15).tasks("train"))
