"""ALFWorld: broken games, and the original games' files (written by the generator)."""

import json
import pickle
from pathlib import Path

import pytest

from bepo.core.batch import Terminal
from bepo.core.errors import UserError
from bepo.envs.alfworld import ALFWorld
from bepo.envs.alfworld.generate import generate
from bepo.rollouts.agent import Agent
from bepo.rollouts.collect import Sample, Sampling, collect
from bepo.rollouts.task_sets import task_set

FOLDERS = {"train": "train", "validation": "valid_unseen", "test": "valid_seen"}
SMALL = {"max_receptacles": 8, "horizon": 6}


class First:
    """A policy that always takes the first admissible action."""

    def sample(self, prompts, choices, sampling, seed, images=None):
        return [Sample([0], [0], [0.0], c[0]) for c in choices]


@pytest.fixture
def original_games(tmp_path, monkeypatch):
    """Write generated games as original ones, and return their folders by split."""
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    return {
        split: [generate(folder, n, max_receptacles=8).write(tmp_path / "json_2.1.1" / folder) for n in range(8)]
        for split, folder in FOLDERS.items()
    }


def test_an_episode_whose_game_raises_ends_and_the_others_go_on(monkeypatch):
    env = ALFWorld(**SMALL)
    episodes = env.start(task_set(env, "train", 4).tasks)
    first = episodes.step({i: "look" for i in range(4)})
    assert not any(s.broken for s in first.values())
    with monkeypatch.context() as patch:
        patch.setattr(episodes._episodes[0], "_game", None)
        second = episodes.step({i: "inventory" for i in range(4)})
    third = episodes.step({i: "look" for i in range(4)})
    assert [[s[i].broken for i in range(4)] for s in (second, third)] == [[True, False, False, False]] * 2
    assert third[2].observation.text == first[2].observation.text and episodes.expert(0) is None


def source_path(env, task):
    return Path(env.source.root) / task.data["path"]


def test_collect_ends_a_broken_episode_as_a_truncation_and_goes_on(original_games):
    env = ALFWorld(data="original", horizon=4)
    tasks = task_set(env, "train", 3).tasks
    (source_path(env, tasks[1]) / "game.tw-pddl").write_text("{ cut off", encoding="utf-8")
    batch = collect(env, Agent(), First(), tasks, 2, Sampling(), seed=0)
    assert batch.broken.tolist() == [False, False, True, True, False, False]
    assert (batch.terminal[batch.last][batch.broken] == Terminal.TRUNCATION).all()
    assert (batch.step[batch.last] + 1).tolist() == [4, 4, 1, 1, 4, 4]


def test_original_games_are_listed_by_content_and_loaded(original_games):
    env = ALFWorld(data="original")
    whole = {split: task_set(env, split, 8) for split in FOLDERS}
    for split, tasks in whole.items():
        names = {source_path(env, t).name for t in tasks.tasks}
        assert names == {folder.name for folder in original_games[split]}
        assert {t.kind for t in tasks.tasks} == {
            json.loads((f / "traj_data.json").read_text(encoding="utf-8"))["task_type"] for f in original_games[split]
        }
    with pytest.raises(UserError, match="8 train tasks, but 9"):
        task_set(env, "train", 9)
    # The same games, found in another order and one of them twice, beside a game that cannot be solved.
    top = original_games["train"][0].parents[1]
    for n, folder in enumerate(reversed(original_games["train"])):
        folder.parent.rename(top / f"z{n}")
        (top / f"z{n}").rename(folder.parent)
    copy = top / "pick_again" / "trial"
    copy.mkdir(parents=True)
    for name in ("game.tw-pddl", "traj_data.json"):
        (copy / name).write_text((original_games["train"][0] / name).read_text(encoding="utf-8"), encoding="utf-8")
    unsolvable = top / "pick_never" / "trial"
    unsolvable.mkdir(parents=True)
    (unsolvable / "game.tw-pddl").write_text(json.dumps({"solvable": False}), encoding="utf-8")
    (unsolvable / "traj_data.json").write_text(json.dumps({"task_type": "pick_and_place_simple"}), encoding="utf-8")
    assert [t.id for t in task_set(ALFWorld(data="original"), "train", 8).tasks] == [t.id for t in whole["train"].tasks]


def test_original_games_are_played_and_solved(original_games):
    env = ALFWorld(data="original", horizon=20)
    tasks = task_set(env, "test", 8).tasks
    episodes, won = env.start(tasks), set()
    for _ in range(env.horizon):
        for i, step in episodes.step({i: episodes.expert(i) for i in range(8) if i not in won}).items():
            if step.terminal == Terminal.SUCCESS:
                won.add(i)
    assert won == set(range(8))


def test_the_verb_is_the_games_own(original_games):
    """Older games say put .. in/on where newer ones say move .. to."""
    for folder in original_games["train"]:
        path = folder / "game.tw-pddl"
        path.write_text(
            path.read_text(encoding="utf-8").replace("move {o} to {r}", "put {o} in/on {r}"), encoding="utf-8"
        )
    env = ALFWorld(data="original", task_types=["pick_and_place_simple"], horizon=20)
    (task,) = task_set(env, "train", 1).tasks
    episodes = env.start([task])
    commands, step = [], None
    while step is None or step.terminal == Terminal.NONE:
        commands.append(episodes.expert(0))
        assert commands[-1] in episodes.observations[0].admissible
        step = episodes.step({0: env.parse_action(commands[-1].replace("in/on", "in / on"))})[0]
    assert step.terminal == Terminal.SUCCESS and " in/on " in commands[-1]


def test_an_environment_can_be_sent_to_another_process():
    env = ALFWorld(**SMALL)
    env.start(task_set(env, "train", 1).tasks)
    assert pickle.loads(pickle.dumps(env)) == env


def test_other_original_games_are_another_environment(original_games, tmp_path, monkeypatch):
    """Task sets are cached by the settings: those of one download must not be read for another."""
    first = ALFWorld(data="original")
    assert ALFWorld(data="original", data_digest=first.data_digest) == first
    generate("train", 99).write(tmp_path / "json_2.1.1" / "train")
    second = ALFWorld(data="original")
    assert second.data_digest != first.data_digest and second.metadata()["data_digest"] == second.data_digest
    with pytest.raises(UserError, match=f"env.data_digest={first.data_digest}.*{second.data_digest}"):
        ALFWorld(data="original", data_digest=first.data_digest)


def test_missing_original_data_is_one_line(monkeypatch):
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    with pytest.raises(UserError, match="ALFWORLD_DATA is not set"):
        task_set(ALFWorld(data="original"), "train", 1)
    monkeypatch.setenv("ALFWORLD_DATA", "/no/such/folder")
    with pytest.raises(UserError, match=r"/no/such/folder/json_2.1.1/train is not a folder"):
        task_set(ALFWorld(data="original"), "train", 1)
