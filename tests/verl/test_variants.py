"""Pictures, and a critic on two data-parallel ranks: one short run each."""

import signal
import time

import numpy as np
import pytest
import torch

from bepo.credit.ppo import PPO
from bepo.policies.tiny_vl import PICTURE, VIDEO
from bepo.training.critic import clipped_value_loss
from tests.verl.command import SMALLEST, Command, only_run, rows, train
from tests.verl.test_text import first_update, initial_policy, local_learner

pytestmark = pytest.mark.timeout(500)


def test_a_vision_language_model_sees_the_board_until_it_is_interrupted(tmp_path):
    """Also with GAGPO's action-level ratio. Ctrl-C goes to every process of the terminal, and only ours answers."""
    overrides = ("model=vl", "credit=gagpo_action_ratio", "updates=100", "env.horizon=4", "backend.optimiser_steps=2")
    command = Command(*SMALLEST, f"results={tmp_path}", *overrides)
    while command.process.poll() is None and not any(p.stat().st_size for p in tmp_path.glob("runs/*/metrics.jsonl")):
        time.sleep(0.1)
    command.signal_all(signal.SIGINT)
    done = command.wait(400)
    assert done.code == 130 and done.orphans == [], done.err[-2000:]
    assert "interrupted; the same command goes on where it stopped" in done.err
    metrics = rows(tmp_path, "metrics")
    assert len(metrics) >= 2
    (checkpoint,) = tmp_path.glob(f"runs/*/checkpoint-{len(metrics)}/actor")
    assert all(row["train/transitions"] > row["train/trajectories"] for row in metrics)
    assert all(row["train/grad_norm"] > 0 and row["train/optimiser_steps"] == 2 for row in metrics)
    optimiser = torch.load(next(checkpoint.glob("optim_*")), weights_only=False)
    assert {int(state["step"]) for state in optimiser["state"].values()} == {2 * len(metrics)}
    batch, config, _ = first_update(tmp_path)
    assert config["loss"]["ratio"] == "action"
    tokens = batch.tokens
    assert tokens.images.shape[1:] == (96, 96, 3) and (tokens.image >= 0).all()
    difference = np.abs(np.exp(tokens.logprob) - np.exp(without_placeholders(tmp_path, config, tokens)))
    assert difference.max() < 1e-5


def without_placeholders(results, config, tokens) -> np.ndarray:
    """Return the initial policy's log-probabilities as the local backend computes them, but for the tokens that stand
    for pictures: vLLM never samples them, and a tiny random model would, one time in ten."""
    policy = initial_policy(results, config)
    batch = policy.padded(tokens, np.arange(len(tokens.response_length)))
    with torch.no_grad():
        logits = policy.model(**batch.inputs, use_cache=False, logits_to_keep=batch.response.shape[1] + 1).logits
    logits = logits[:, :-1][batch.mask].float()
    logits[:, policy.tokenizer.convert_tokens_to_ids([PICTURE, VIDEO])] = -torch.inf
    return logits.log_softmax(-1).gather(1, batch.response[batch.mask].unsqueeze(1)).squeeze(1).numpy()


def test_ppo_with_a_critic_on_two_ranks(tmp_path):
    """verl's critic gives the estimator its values and is fitted to the estimator's targets.

    Transitions are padded to a multiple of the ranks; loss and gradient are those of the local backend, which has one
    rank and no padding.
    """
    done = train(
        tmp_path,
        "credit=ppo",
        "backend.n_gpus=2",
        "updates=2",
        "backend.optimiser_steps=1",
        "rollout.tasks=3",
        "keep=resume",
    )
    assert done.code == 0 and done.orphans == [], done.err[-2000:]
    metrics = rows(tmp_path, "metrics")
    for row in metrics:
        assert row["train/transitions"] > row["train/trajectories"] == 9
        assert row["train/critic_grad_norm"] > 0 and row["time/values"] > 0
    stored = only_run(tmp_path)
    assert stored.facts["world_size"] == 2
    assert {p.name for p in (stored.path / "checkpoint-2").iterdir()} >= {"actor", "critic"}
    batch, config, row = first_update(tmp_path)
    assert row["train/padding_rows"] == len(batch) % 2 == 1
    credit = PPO()(batch)
    for name, value in credit.metrics.items():
        assert row[f"credit/{name}"] == value, name
    value, target = (torch.from_numpy(x).float()[None] for x in (batch.tokens.value, credit.token_return))
    expected = clipped_value_loss(value, value, target, torch.ones_like(value, dtype=torch.bool), 0.5).mean().item()
    assert row["train/value_loss"] == pytest.approx(expected, rel=1e-4)
    stats = local_learner(tmp_path, config).update(batch, credit.token_advantage, 0)
    for name in ("policy_loss", "grad_norm", "entropy", "kl"):
        assert row[f"train/{name}"] == pytest.approx(stats[name], rel=1e-3, abs=1e-5), name
