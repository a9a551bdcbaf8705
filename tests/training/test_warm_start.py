"""The warm start that all cells of a study share."""

import json
import os
import re
import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from bepo.core import phases
from bepo.core.errors import UserError
from bepo.envs.sokoban import Sokoban
from bepo.losses.ppo_clip import PPOClip
from bepo.policies.tiny import Tiny, WarmStart
from bepo.rollouts.agent import Agent
from bepo.rollouts.collect import Sampling
from bepo.rollouts.evaluation import Evaluation
from bepo.rollouts.task_sets import task_set
from bepo.store.files import Corrupt
from bepo.store.folders import digests_of_folder, seal_folder
from bepo.store.json_files import read_sealed
from bepo.store.published import PUBLISHED, WARM_START, WARM_STARTS, read_warm_start
from bepo.training import Optimisation, warm_start
from bepo.training.backends import Setup
from bepo.training.warm_start import demonstrations, initial_policy

pytestmark = pytest.mark.slow

ENV = Sokoban(horizon=8)
AGENT = Agent(style="compact", history_observations=False)
TRAIN, VALIDATION = task_set(ENV, "train", 30), task_set(ENV, "validation", 10)


def started(cache, published=None, max_prompt_length=128, **changes):
    settings = {"target_success": 1.0, "episodes": 30, "max_steps": 40, "check_every": 20, "batch_size": 32} | changes
    model = {"hidden_size": 32, "num_hidden_layers": 1, "max_prompt_length": max_prompt_length}
    config = Tiny(**model, warm_start=WarmStart(**settings))
    return initial_policy(setup_of(config, cache, published)).model.state_dict()


def setup_of(policy, cache, published=None):
    return Setup(
        env=ENV,
        agent=AGENT,
        policy=policy,
        loss=PPOClip(),
        training=Optimisation(),
        evaluation=Evaluation(),
        sampling=Sampling(),
        trajectories=4,
        updates=1,
        needs_critic=False,
        task_sets={"train": TRAIN, "validation": VALIDATION},
        device="cpu",
        cache=cache,
        folder=cache,
        published=published,
    )


def test_an_environment_without_an_expert_has_no_warm_start(tmp_path, capsys):
    class Alone(Sokoban):
        has_expert = False

    setup = replace(setup_of(Tiny(hidden_size=32, num_hidden_layers=1), tmp_path), env=Alone(horizon=8))
    with phases.shown():
        policy = initial_policy(setup)
    drawn = setup.policy.build(setup.env, AGENT, "cpu")
    assert capsys.readouterr().err.startswith("env=sokoban has no expert: no warm start")
    assert all(torch.equal(a, b) for a, b in zip(policy.model.parameters(), drawn.model.parameters()))
    assert folders(tmp_path) == []


def folders(cache):
    return sorted(p for p in cache.iterdir() if p.is_dir())


BRIEF = {"max_steps": 20}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Folders of two brief warm starts, of the seeds 0 and 1."""
    caches = [tmp_path_factory.mktemp("fitted") for _ in range(2)]
    for seed, cache in enumerate(caches):
        started(cache, **BRIEF, seed=seed)
    return [folder for cache in caches for folder in folders(cache)]


def copied(folder, place):
    return shutil.copytree(folder, place / folder.name)


def test_fitted_once_then_read(tmp_path):
    first = started(tmp_path)
    (folder,) = folders(tmp_path)
    stamp = (folder / "warm_start.json").stat().st_mtime_ns
    again = started(tmp_path)
    assert folders(tmp_path) == [folder] and (folder / "warm_start.json").stat().st_mtime_ns == stamp
    assert all(torch.equal(first[k], again[k]) for k in first)
    curve = json.loads((folder / "warm_start.json").read_text(encoding="utf-8"))["curve"]
    assert [c["step"] for c in curve] == [20, 40] and curve[1]["loss"] < curve[0]["loss"]


def test_fitting_anew_gives_the_same_weights_and_other_settings_give_others(tmp_path):
    a, b, c = started(tmp_path / "a"), started(tmp_path / "b"), started(tmp_path / "a", seed=1)
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert any(not torch.equal(a[k], c[k]) for k in a) and len(folders(tmp_path / "a")) == 2


def test_the_fit_stops_at_its_target(tmp_path):
    started(tmp_path, target_success=0.0)
    (folder,) = folders(tmp_path)
    assert len(json.loads((folder / "warm_start.json").read_text(encoding="utf-8"))["curve"]) == 1


def test_a_fit_that_misses_its_target_says_so(tmp_path, capsys):
    with phases.shown():
        started(tmp_path)
        started(tmp_path, check_every=50)
    said = capsys.readouterr().err
    assert re.search(r"ended after 40 steps; success 0\.\d\d at step 40, the target is 1\.00", said)
    assert "ended after 40 steps; success was not measured" in said


def test_demonstrations_that_are_too_long_are_left_out(tmp_path, capsys):
    """A past action makes a prompt longer. In play such a prompt ends its episode."""
    first = demonstrations(ENV, AGENT, TRAIN.tasks, 0.3, 0)[0].prompt
    length = len(Tiny(hidden_size=32, num_hidden_layers=1).build(ENV, AGENT, "cpu").encode(first))
    with phases.shown():
        started(tmp_path, max_steps=1, check_every=1, max_prompt_length=length)
    assert re.search(r"[1-9]\d* of \d+ demonstrated steps are left out", capsys.readouterr().err)
    with pytest.raises(UserError, match=r"policy\.warm_start: every demonstrated step is too long"):
        started(tmp_path, max_steps=1, max_prompt_length=length - 1)


def test_a_changed_warm_start_is_refused(fitted, tmp_path):
    weights = copied(fitted[0], tmp_path) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\0")
    with pytest.raises(Corrupt, match=r"changed since .*; remove .* to make it anew"):
        started(tmp_path, **BRIEF)


def test_a_published_one_is_taken_where_its_settings_are_the_same(fitted, tmp_path, monkeypatch):
    """It is copied, not fitted, even if a fit would give other weights; ``run.json`` names it."""
    published, cache = tmp_path / "published", tmp_path / "cache"
    folder = copied(fitted[0], published)
    elsewhere = {k: v + 1 for k, v in load_file(folder / "model.safetensors").items()}
    save_file(elsewhere, folder / "model.safetensors", metadata={"format": "pt"})
    made_for = read_sealed(folder / WARM_START, "warm start")
    (folder / WARM_START).unlink()
    seal_folder(folder, WARM_START, **{name: value for name, value in made_for.items() if name != "files"})
    other = started(cache, published, **BRIEF, seed=1)
    monkeypatch.setattr(warm_start, "fit", None)
    os.utime(folder, (0, 0))
    taken = started(cache, published, **BRIEF)
    assert (cache / folder.name).stat().st_mtime > 0  # or another process would have removed the copy as a leftover
    assert all(torch.equal(taken[k], elsewhere[k]) and not torch.equal(taken[k], other[k]) for k in elsewhere)
    assert digests_of_folder(cache / folder.name) == digests_of_folder(folder)


def test_a_changed_published_one_is_refused_by_name(fitted, tmp_path):
    weights = copied(fitted[0], tmp_path / "published") / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\0")
    with pytest.raises(Corrupt, match=rf"{weights}: changed since .*; `git restore {weights.parent}`"):
        started(tmp_path / "cache", tmp_path / "published", **BRIEF)
    assert not folders(tmp_path / "cache")


def test_one_under_the_name_of_another_is_refused(fitted, tmp_path):
    """Also if it was copied into the cache, and for the published warm start itself."""
    folder, other = fitted
    shutil.copytree(other, tmp_path / "published" / folder.name)
    with pytest.raises(Corrupt, match=rf"{folder.name}: made for other settings.*git restore"):
        started(tmp_path / "cache", tmp_path / "published", **BRIEF)
    assert not folders(tmp_path / "cache")
    shutil.copytree(other, tmp_path / "cache" / folder.name)
    with pytest.raises(Corrupt, match=r"made for other settings \(policy.warm_start.seed is 1, not 0\); remove"):
        started(tmp_path / "cache", **BRIEF)


def test_every_published_one_is_made_for_what_its_name_says():
    folders = [folder for tier in PUBLISHED.iterdir() for folder in tier.glob(f"{WARM_STARTS}/*")]
    assert len(folders) > 10
    for folder in folders:
        read_warm_start(folder)


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_demonstrations_are_the_experts(noise):
    """Without noise an episode is the optimal plan; with noise the imitated action is still the expert's."""
    steps = demonstrations(ENV, AGENT, TRAIN.tasks[:10], noise, seed=0)
    optimal = sum(t.data["solution_length"] for t in TRAIN.tasks[:10] if t.data["solution_length"] <= ENV.horizon)
    assert (len(steps) == optimal) == (noise == 0.0)
    assert {d.response for d in steps} <= {"up", "down", "left", "right"}
    assert all("now " in d.prompt for d in steps)


def test_an_expert_may_play_where_no_action_is_listed(monkeypatch):
    env = Sokoban(observation="text")
    start = env.start

    def unlisted(tasks):
        episodes = start(tasks)
        episodes.observations[:] = [replace(one, admissible=()) for one in episodes.observations]
        return episodes

    monkeypatch.setattr(env, "start", unlisted)
    expected = demonstrations(Sokoban(observation="text"), AGENT, TRAIN.tasks[:3], 0.0, 0)
    assert demonstrations(env, AGENT, TRAIN.tasks[:3], 0.0, 0)[0].response == expected[0].response


def test_demonstrations_end_where_every_episode_is_over():
    """The episodes end long before the horizon, and then no episode is left to step."""
    env = Sokoban(horizon=40)
    assert demonstrations(env, AGENT, task_set(env, "train", 2).tasks, noise=0.0, seed=0)
