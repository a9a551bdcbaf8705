"""The warm start of a model without language skills: a short supervised fit on episodes of a noisy expert."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from bepo.core.batch import Terminal, Tokens
from bepo.core.errors import UserError
from bepo.core.phases import note, report
from bepo.core.seeds import derive_seed
from bepo.envs import Environment, Episodes, Task, started
from bepo.policies.lm.language_model import LanguageModel
from bepo.policies.tiny import WarmStart
from bepo.rollouts.agent import Agent
from bepo.rollouts.collect import Overlong, Sampling, collect
from bepo.rollouts.evaluation import play
from bepo.rollouts.task_sets import TaskSet
from bepo.store.files import with_hint
from bepo.store.folders import read_sealed_folder, seal_folder, sync_folder
from bepo.store.json_files import check_made_for
from bepo.store.locks import locked
from bepo.store.published import WARM_START, read_warm_start
from bepo.training.backends import Setup
from bepo.training.starting_policy import starting_policy_of, warm_start_name


class Demonstration(NamedTuple):
    """One step of a demonstrated episode: the prompt, and the response to imitate."""

    prompt: str
    response: str  # the expert's action
    image: np.ndarray | None  # (H, W, 3) uint8, the picture in the prompt


def initial_policy(setup: Setup) -> LanguageModel:
    """Return the policy that training starts from, after its warm start if its settings have one.

    If the set-up has trained ``weights``, return that policy. A warm start needs an environment with an expert.

    Runs with equal settings share one warm start. It is a checkpoint in ``setup.cache/<env>-<policy>-<key>``. Its
    ``warm_start.json`` has the settings behind the key, the curve of the fit, and the digests of the other files. If a
    warm start with this key is published, it is copied, because a fit on another type of processor gives other weights.
    Runs that need a warm start at the same time wait for the first one to fit it. Raises ``Corrupt`` if one of its
    files was changed, or if it was made for other settings.
    """
    policy = setup.policy.build(setup.env, setup.agent, setup.device)
    if setup.weights is not None:
        policy.load_weights(setup.weights)
    elif name := warm_start_name(setup):
        folder = setup.cache / name
        with locked(setup.cache / f"{name}.lock"):
            if not folder.exists():
                _make(folder, policy, setup)
        with with_hint(f"remove {folder} to make it anew"):
            made_for = read_sealed_folder(folder, WARM_START)
            made_for.pop("curve", None)
            check_made_for(folder, made_for, starting_policy_of(setup))
        policy.load_weights(folder)
    elif setup.policy.warm_start_settings is not None:
        note(f"env={setup.env.name} has no expert: no warm start, training starts from the weights as they are")
    return policy


def _make(folder: Path, policy: LanguageModel, setup: Setup) -> None:
    """Copy the published warm start into ``folder``, or fit the policy and save it there."""
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    published = setup.published / folder.name if setup.published else None
    if published and published.exists():
        read_warm_start(published)
        note(f"warm start: copied from the published runs ({folder.name})")
        shutil.copytree(published, part)
        os.utime(part)  # with the published folder's time another process would take it for a leftover
        sync_folder(part)
    else:
        settings, sets = setup.policy.warm_start_settings, setup.task_sets
        assert settings is not None
        sampling = setup.evaluation.sampling
        curve = fit(policy, settings, setup.env, setup.agent, sets["train"], sets["validation"], sampling)
        policy.save(part)
        seal_folder(part, WARM_START, **starting_policy_of(setup), curve=curve)
    part.rename(folder)


def fit(
    policy: LanguageModel,
    config: WarmStart,
    env: Environment,
    agent: Agent,
    train: TaskSet,
    validation: TaskSet,
    sampling: Sampling,
) -> list[dict]:
    """Fit the policy in place until its success rate on ``validation`` reaches the target, or for ``max_steps``.

    The loss is the mean negative log-probability of a response token. ``sampling`` is for the validation episodes.
    Returns one row for each check: ``step``, ``loss`` and ``success``.
    """
    tasks = list(islice(cycle(train.tasks), config.episodes))
    examples = demonstrations(env, agent, tasks, config.noise, config.seed)
    tokens, n = _tokens(policy, examples)
    optimiser = torch.optim.AdamW(policy.model.parameters(), lr=config.learning_rate, fused=True)
    rng = np.random.default_rng(derive_seed(config.seed, 1))
    curve = []
    for step in range(1, config.max_steps + 1):
        policy.model.train()
        batch = rng.choice(n, min(config.batch_size, n), replace=False)
        log_probs = policy.log_probs(tokens, batch, Sampling())
        loss = -log_probs.logprob.sum() / log_probs.mask.sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        report("warm start", f"step {step} of at most {config.max_steps}")
        if step % config.check_every == 0:
            policy.forget()
            played = play(partial(collect, env, agent, policy), validation, config.seed, sampling)
            success = float(played.success.mean())
            report("warm start", f"step {step}, success {success:.2f} of {config.target_success:.2f}")
            curve.append({"step": step, "loss": loss.item(), "success": success})
            if success >= config.target_success:
                return curve
    reached = f"success {curve[-1]['success']:.2f} at step {curve[-1]['step']}" if curve else "success was not measured"
    note(f"warm start: ended after {config.max_steps} steps; {reached}, the target is {config.target_success:.2f}")
    return curve


def demonstrations(
    env: Environment, agent: Agent, tasks: Sequence[Task], noise: float, seed: int
) -> list[Demonstration]:
    """Run one episode of each task with the expert, and return every step, in the order of play.

    The action taken is random with probability ``noise``; the response to imitate is always the expert's. An episode
    ends at the horizon, at its own end, or if the expert has no action (a dead end).
    """
    with started(env, tasks) as episodes:
        return _demonstrated(env, agent, tasks, episodes, noise, np.random.default_rng(derive_seed(seed, 0)))


def _demonstrated(
    env: Environment,
    agent: Agent,
    tasks: Sequence[Task],
    episodes: Episodes,
    noise: float,
    rng: np.random.Generator,
) -> list[Demonstration]:
    histories: list[list[tuple[str, str]]] = [[] for _ in tasks]
    active: set[int] = set(range(len(tasks)))
    steps: list[Demonstration] = []
    for number in range(1, env.horizon + 1):
        report("warm start", f"the expert plays {len(tasks):,} episodes, step {number} of at most {env.horizon}")
        actions = {}
        for i in sorted(active):
            best = episodes.expert(i)
            if best is None:
                active.discard(i)
                continue
            observation = episodes.observations[i]
            prompt = agent.prompt(env.prompt, episodes.instructions[i], observation, histories[i])
            steps.append(Demonstration(prompt, best, observation.image))
            listed = observation.admissible or (best,)
            random = listed[rng.integers(len(listed))]
            actions[i] = random if rng.random() < noise else best
            histories[i].append((observation.text, actions[i]))
        if not actions:
            break
        for i, step in episodes.step(actions).items():
            if step.terminal != Terminal.NONE or step.broken:
                active.discard(i)
    return steps


def _tokens(policy: LanguageModel, examples: Sequence[Demonstration]) -> tuple[Tokens, int]:
    """Return the examples as tokens, and their number. Prompts that are too long are left out, as in play."""
    rows, too_long = [], 0
    for prompt, response, image in examples:
        try:
            prompt_ids = policy.encode(prompt, image)
        except Overlong as error:
            too_long += 1
            if too_long == len(examples):
                raise UserError(f"policy.warm_start: every demonstrated step is too long ({error})") from None
            continue
        ids = policy.encode_response(response)
        rows.append({"prompt_ids": prompt_ids, "response_ids": ids, "logprobs": [0.0] * len(ids), "image": image})
    if too_long:
        note(
            f"warm start: {too_long:,} of {len(examples):,} demonstrated steps are left out; their prompts are too long"
        )
    return Tokens.pack(rows), len(rows)
