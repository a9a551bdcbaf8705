"""Pictures; a critic on two data-parallel ranks, and vLLM over both: one short run each."""

import signal
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError
from bepo.core.seeds import derive_seed
from bepo.credit.gagpo import GAGPO
from bepo.credit.ppo import PPO
from bepo.envs.sokoban import Sokoban
from bepo.policies.pretrained import Pretrained
from bepo.policies.tiny_vl import PICTURE, VIDEO
from bepo.rollouts.agent import Agent
from bepo.training.backends.verl import Verl
from bepo.training.critic import clipped_value_loss
from bepo.training.minibatches import minibatches
from bepo.training.verl.engine import check_ranks
from tests.verl.command import SLOW, SMALLEST, Command, only_run, rows, train
from tests.verl.test_text import first_update, flat, local_learner, relative

pytestmark = pytest.mark.timeout(500 * SLOW)


def test_a_vision_language_model_sees_the_board_until_it_is_interrupted(tmp_path):
    """Also with GAGPO's action-level ratio, and dynamic sampling. Ctrl-C goes to every process of the terminal, and
    only ours answers."""
    overrides = ("model=vl", "credit=gagpo_action_ratio", "updates=100", "env.horizon=4", "training.minibatch_size=4")
    overrides += ("rollout.mixed_groups=true", "rollout.max_batches=2")
    command = Command(*SMALLEST, f"results={tmp_path}", *overrides)
    while command.process.poll() is None and not any(p.stat().st_size for p in tmp_path.glob("runs/*/metrics.jsonl")):
        time.sleep(0.1)
    command.signal_all(signal.SIGINT)
    done = command.wait(400)
    assert done.code == 130 and done.orphans == [], done.err[-2000:]
    assert "interrupted; the same command continues from here" in done.err
    metrics = rows(tmp_path, "metrics")
    assert len(metrics) >= 2
    (checkpoint,) = tmp_path.glob(f"runs/*/checkpoint-{len(metrics)}/actor")
    assert not list((checkpoint / "huggingface").glob("*.safetensors"))  # the run's last checkpoint alone has this copy
    assert all(row["train/transitions"] > row["train/trajectories"] for row in metrics)
    assert all(row["train/grad_norm"] > 0 and row["train/optimiser_steps"] >= 2 for row in metrics)
    optimiser = torch.load(next(checkpoint.glob("optim_*")), weights_only=False)
    assert {int(state["step"]) for state in optimiser["state"].values()} == {
        sum(row["train/optimiser_steps"] for row in metrics)
    }
    batch, config, _ = first_update(tmp_path)
    assert config["loss"]["ratio"] == "action"
    for row in metrics:
        assert row["train/trajectories"] in (6, 12) and row["train/kept_groups"] in (1, 2)
    assert batch.n_groups == metrics[0]["train/kept_groups"] and metrics[0]["train/trajectories"] == 12
    tokens = batch.tokens
    assert tokens.images.shape[1:] == (96, 96, 3) and (tokens.image >= 0).all()
    learner = local_learner(tmp_path, config)
    sampled, trained = (log_probs(learner.policy, tokens, forbidden) for forbidden in ([PICTURE, VIDEO], []))
    assert np.abs(np.exp(tokens.logprob) - np.exp(sampled)).max() < 1e-5
    batch = replace(batch, tokens=replace(tokens, logprob=trained))
    advantage = np.repeat(GAGPO(**config["credit"])(batch).advantage, tokens.response_length)
    stats = learner.update(batch, advantage, derive_seed(config["seed"], 1))
    assert stats["grad_norm"] == pytest.approx(metrics[0]["train/grad_norm"], rel=1e-4)  # each step had its pictures


def log_probs(policy, tokens, forbidden) -> np.ndarray:
    """Return the log-probabilities of responses as the local backend computes them.

    vLLM never samples the tokens that stand for pictures, and a tiny random model would, one time in ten."""
    batch = policy.padded(tokens, np.arange(len(tokens.response_length)))
    with torch.no_grad():
        logits = policy.model(**batch.inputs, use_cache=False, logits_to_keep=batch.response.shape[1] + 1).logits
    logits = logits[:, :-1][batch.mask].float()
    logits[:, policy.tokenizer.convert_tokens_to_ids(forbidden)] = -torch.inf
    return logits.log_softmax(-1).gather(1, batch.response[batch.mask].unsqueeze(1)).squeeze(1).numpy()


def test_lora_trains_adapters_and_keeps_a_policy_with_them(tmp_path):
    """Only layers with adapters change. vLLM samples the second update from the policy that the first one made.

    The reference of the KL term is the policy without its adapters. Episodes whose third prompt is too long are cut.
    """
    lora = (
        "policy.max_prompt_length=42",
        "policy.lora.rank=4",
        "policy.lora.alpha=64",
        "policy.lora.modules=[q_proj,v_proj]",
    )
    done = train(tmp_path, *lora, "updates=2", "training.minibatch_size=8", "training.learning_rate=1e-2")
    assert done.code == 0 and done.orphans == [], done.err[-2000:]
    metrics = rows(tmp_path, "metrics")
    assert all(row["train/rollout_probability_difference"] < 1e-4 and row["train/grad_norm"] > 0 for row in metrics)
    assert metrics[-1]["train/kl"] > 0  # the adapters moved it away from its reference
    for row in metrics:
        cut = row["train/overlong_episodes"]
        assert cut == round(row["train/ended_truncated"] * row["train/trajectories"]) > 0
        assert row["train/episode_length"] <= 2
    stored = only_run(tmp_path)
    assert stored.metadata["identity"]["policy"]["lora"] == {"rank": 4, "alpha": 64, "modules": ["q_proj", "v_proj"]}
    before = dict(local_learner(tmp_path, stored.config).policy.model.named_parameters())
    policy = Pretrained(path=str(stored.policy()), max_prompt_length=128)
    after = dict(
        policy.build(Sokoban(), Agent(style="compact", history_observations=False), "cpu").model.named_parameters()
    )
    changed = {name for name, weights in after.items() if not torch.equal(weights, before[name])}
    assert changed == {name for name in after if "q_proj.weight" in name or "v_proj.weight" in name}


@pytest.mark.long
def test_ppo_with_a_critic_makes_several_steps_on_two_ranks(tmp_path):
    """verl's critic gives the estimator its values and is fitted to the estimator's targets.

    The one replica of vLLM divides the model between the ranks (tensor parallelism), and samples what they train. Each
    step's transitions are padded to a multiple of the ranks; the loss, a mean over responses, does not count padding.
    The weights after two updates are those of the local backend, which has one rank and no padding. The critic hardly
    moves, so that the loss of every step is known.
    """
    done = train(
        tmp_path,
        "credit=ppo",
        "loss.aggregation=sequence_mean",
        "backend.n_gpus=2",
        "backend.tensor_parallel_size=2",
        "updates=2",
        "training.minibatch_size=15",
        "training.critic.learning_rate=1e-12",
        "rollout.tasks=3",
        "keep=resume",
    )
    assert done.code == 0 and done.orphans == [], done.err[-2000:]
    metrics = rows(tmp_path, "metrics")
    for row in metrics:
        assert row["train/transitions"] > row["train/trajectories"] == 9
        assert row["train/rollout_probability_difference"] < 1e-5
        assert row["train/critic_grad_norm"] > 0 and row["time/values"] > 0
        assert row["train/optimiser_steps"] == -(-row["train/transitions"] // 15) > 1
        assert row["train/padding_rows"] == 16 * row["train/optimiser_steps"] - row["train/transitions"] > 0
    stored = only_run(tmp_path)
    assert stored.metadata["world_size"] == 2
    batch, config, row = first_update(tmp_path)
    credit = PPO()(batch)
    for name, value in credit.metrics.items():
        assert row[f"credit/{name}"] == value, name
    assert row["train/value_loss"] == pytest.approx(value_loss_of_steps(batch, credit, config), rel=1e-4)
    learner, first = (local_learner(tmp_path, config) for _ in range(2))
    for row in metrics:
        batch = RolloutBatch.load(stored.path / "rollouts" / f"{row['update']:06d}.npz")
        seed = derive_seed(config["seed"], row["update"])
        stats = learner.update(batch, PPO()(batch).token_advantage, seed)
        assert row["train/grad_norm"] == pytest.approx(stats["grad_norm"], rel=1e-4)
    weights, before = (flat(of.policy.model.parameters()) for of in (learner, first))
    policy = Pretrained(path=str(stored.policy()), max_prompt_length=128)
    policy = policy.build(Sokoban(), Agent(style="compact", history_observations=False), "cpu")
    assert relative(flat(policy.model.parameters()) - before, weights - before) < 1e-3
    with pytest.raises(UserError, match=r"by 2 devices, .*backend.nodes=.*backend.n_gpus=.* are 4: go on with 2"):
        check_ranks(stored.path / "checkpoint-2", Verl(n_gpus=4))


def value_loss_of_steps(batch, credit, config) -> float:
    """Return the mean over an update's steps of the mean value loss of their tokens, while the critic is as it was."""
    offset = batch.tokens.response_offset
    value, target = (torch.from_numpy(x).float()[None] for x in (batch.tokens.value, credit.token_return))
    loss = clipped_value_loss(value, value, target, torch.ones_like(value, dtype=torch.bool), 0.5)[0].numpy()
    steps = minibatches(len(batch), config["training"]["minibatch_size"], derive_seed(config["seed"], 1), 0)
    return float(np.mean([np.concatenate([loss[offset[i] : offset[i + 1]] for i in step]).mean() for step in steps]))
