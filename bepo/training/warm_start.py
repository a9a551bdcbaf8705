"""Warm start of a model that knows no language: a short supervised fit on a noisy expert's episodes."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from filelock import FileLock

from bepo.agents import Agent
from bepo.collect import Sampling, collect, derive_seed
from bepo.envs import Environment, Task
from bepo.evaluate import Evaluation, evaluate, success_rate
from bepo.panels import Panel
from bepo.policies.language_model import LanguageModel
from bepo.policies.tiny import Tiny, WarmStart
from bepo.rollout import Terminal, Tokens
from bepo.training.backend import Setup


class Demonstration(NamedTuple):
    prompt: str
    response: str  # the expert's
    image: np.ndarray | None  # that the prompt shows


def initial_policy(setup: Setup) -> LanguageModel:
    """The policy that training starts from, after its warm start where it has one."""
    if getattr(setup.policy, "warm_start", None) is None:
        return setup.policy.build(setup.env, setup.agent, setup.device)
    train, validation = setup.panels["train"], setup.panels["validation"]
    return warm_started(
        setup.policy, setup.env, setup.agent, train, validation, setup.evaluation, setup.device, setup.cache
    )


def warm_started(
    config: Tiny,
    env: Environment,
    agent: Agent,
    train: Panel,
    validation: Panel,
    evaluation: Evaluation,
    device: str,
    cache: Path,
) -> LanguageModel:
    """The policy after its warm start, fitted once for these settings and then read from ``cache``."""
    policy = config.build(env, agent, device)
    settings = {
        "env": {**asdict(env), "version": env.method_version},
        "agent": {**asdict(agent), "version": agent.method_version},
        "policy": {**asdict(config), "version": config.method_version},
        "panels": [train.digest, validation.digest],
        "sampling": asdict(evaluation.sampling),
        "device": device,
        "threads": torch.get_num_threads(),
    }
    key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
    folder = cache / f"{env.name}-{config.name}-{key}"
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / f"{folder.name}.lock"):
        if not folder.exists():
            curve = fit(policy, config.warm_start, env, agent, train, validation, evaluation.sampling)
            part = folder.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            policy.save(part)
            (part / "warm_start.json").write_text(json.dumps({**settings, "curve": curve}, indent=1))
            part.rename(folder)
    policy.load_weights(folder)
    return policy


def fit(
    policy: LanguageModel,
    config: WarmStart,
    env: Environment,
    agent: Agent,
    train: Panel,
    validation: Panel,
    sampling: Sampling,
) -> list[dict]:
    """Fit in place until success on ``validation`` reaches the target; returns the curve of checks."""
    tasks = list(islice(cycle(train.tasks), config.episodes))
    shown = demonstrations(env, agent, tasks, config.noise, config.seed)
    tokens = _tokens(policy, shown)
    optimiser = torch.optim.AdamW(policy.model.parameters(), lr=config.learning_rate)
    rng = np.random.default_rng(derive_seed(config.seed, 1))
    curve = []
    for step in range(1, config.max_steps + 1):
        policy.model.train()
        batch = rng.choice(len(shown), min(config.batch, len(shown)), replace=False)
        scores = policy.score(tokens, batch, Sampling())
        loss = -scores.logprob.sum() / scores.mask.sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % config.check_every == 0:
            success = success_rate(evaluate(partial(collect, env, agent, policy), validation, config.seed, sampling))
            curve.append({"step": step, "loss": loss.item(), "success": success})
            if success >= config.target:
                break
    return curve


def demonstrations(
    env: Environment, agent: Agent, tasks: Sequence[Task], noise: float, seed: int
) -> list[Demonstration]:
    """One episode a task, in which a step is random with probability ``noise``; what is imitated is always the
    expert's action there. An episode ends in a dead end."""
    rng = np.random.default_rng(derive_seed(seed, 0))
    episodes = env.start(tasks)
    histories: list[list[tuple[str, str]]] = [[] for _ in tasks]
    active, shown = set(range(len(tasks))), []
    for _ in range(env.horizon):
        actions = {}
        for i in sorted(active):
            best = episodes.expert(i)
            if best is None:
                active.discard(i)
                continue
            seen = episodes.observations[i]
            prompt = agent.prompt(env.prompt, episodes.instructions[i], seen, histories[i])
            shown.append(Demonstration(prompt, best, seen.image))
            random = seen.admissible[rng.integers(len(seen.admissible))]
            actions[i] = random if rng.random() < noise else best
            histories[i].append((seen.text, actions[i]))
        for i, step in episodes.step(actions).items():
            if step.terminal != Terminal.NONE:
                active.discard(i)
    return shown


def _tokens(policy: LanguageModel, shown: Sequence[Demonstration]) -> Tokens:
    rows = []
    for prompt, response, image in shown:
        ids, prompt_ids = policy.encode_response(response), policy.encode(prompt, image)
        rows.append({"prompt_ids": prompt_ids, "response_ids": ids, "logprobs": [0.0] * len(ids), "image": image})
    return Tokens.pack(rows)
