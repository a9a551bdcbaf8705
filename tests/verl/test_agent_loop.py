"""vLLM gets the same prompts as the policy of the local backend."""

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest
from verl.utils import hf_processor, hf_tokenizer

from bepo.core.errors import UserError
from bepo.envs.sokoban import Sokoban
from bepo.policies.tiny import Tiny
from bepo.policies.tiny_vl import TinyVL
from bepo.rollouts.agent import Agent
from bepo.rollouts.task_sets import task_set
from bepo.training.verl import agent_loop
from bepo.training.verl.agent_loop import StepLoop
from bepo.training.verl.episodes import Prompt

AGENT = Agent(style="compact", history_length=0)


def loop_for(env, settings, folder):
    """Return a policy, the agent loop with what verl loads of it, and the first prompt of an episode."""
    policy = settings.build(env, AGENT, "cpu")
    policy.save(folder)
    rollout = SimpleNamespace(prompt_length=policy.max_prompt_length)
    actor = SimpleNamespace(rollout=rollout, model=SimpleNamespace(path=str(folder)))
    config = SimpleNamespace(config=SimpleNamespace(actor_rollout_ref=actor))
    loop = StepLoop(config, None, hf_tokenizer(str(folder)), hf_processor(str(folder)))
    episodes = env.start(task_set(env, "train", 1).tasks)
    observation = episodes.observations[0]
    text = AGENT.prompt(env.prompt, episodes.instructions[0], observation, [])
    return policy, loop, Prompt(text, observation.image)


def test_a_prompt(tmp_path):
    settings = Tiny(warm_start=None, num_attention_heads=2, num_hidden_layers=1)
    policy, loop, prompt = loop_for(Sokoban(), settings, tmp_path)
    assert loop.processor is None
    ids = loop._encode(prompt, {})
    assert ids == policy.encode(prompt.text)
    loop.max_prompt_length = len(ids) - 1
    with pytest.raises(UserError, match=f"a prompt has {len(ids)} tokens, policy.max_prompt_length is {len(ids) - 1}"):
        loop._encode(prompt, {})


def test_a_prompt_with_a_picture(tmp_path):
    settings = TinyVL(warm_start=None, hidden_size=32, num_hidden_layers=1, num_attention_heads=4)
    policy, loop, prompt = loop_for(Sokoban(observation="rgb"), settings, tmp_path)
    picture = loop._picture(prompt.image, 0)
    pixels, expected = (
        of.image_processor(images=[image], return_tensors="pt")
        for of, image in ((loop.processor, picture), (policy, prompt.image))
    )
    assert loop._encode(prompt, {"images": [picture]}) == policy.encode(prompt.text, prompt.image)
    assert (pixels["image_grid_thw"] == expected["image_grid_thw"]).all()
    np.testing.assert_allclose(pixels["pixel_values"], expected["pixel_values"], rtol=1e-6)
    loop.processor = None
    with pytest.raises(UserError, match="shows pictures"):
        loop._picture(prompt.image, 0)


class Growing:
    """An episode of three steps, whose prompt becomes longer with each."""

    restarts, dropped = 0, False

    def __init__(self, *place):
        Growing.last = self
        self.steps = 0

    async def start(self):
        return self._prompt()

    async def step(self, text):
        self.steps += 1
        done = "FAILURE" if self.steps == 3 else None
        return {"r": 0.0, "done": done}, None if done else self._prompt()

    async def drop(self):
        self.dropped = True

    def _prompt(self):
        return Prompt("now ##_X" + " now ##_X" * 4 * self.steps, None)


@pytest.mark.parametrize("fits, seeds", [(3, True), (2, False), (1, True), (0, True)])
def test_an_episode_ends_where_its_prompt_becomes_too_long(tmp_path, monkeypatch, fits, seeds):
    """``fits`` prompts are short enough. The first one must be: else the run's settings make no sense."""
    settings = Tiny(warm_start=None, num_attention_heads=2, num_hidden_layers=1)
    policy, loop, _ = loop_for(Sokoban(), settings, tmp_path)
    lengths = [len(policy.encode("now ##_X" + " now ##_X" * 4 * n)) for n in range(3)]
    assert lengths[0] < lengths[1] < lengths[2]
    loop.max_prompt_length = lengths[fits - 1] if fits else lengths[0] - 1
    asked = []

    async def generate(request_id, prompt_ids, sampling_params, image_data):
        asked.append(sampling_params)
        return SimpleNamespace(token_ids=[1], log_probs=[-1.0], extra_fields={})

    async def task(group, n_workers):
        return None, None

    loop.server_manager = SimpleNamespace(generate=generate)
    monkeypatch.setattr(agent_loop, "Episode", Growing)
    monkeypatch.setattr(agent_loop, "_task", task)
    row = {"index": 0, "session_id": 0, "seed": 1, "uid": "u", "env_workers": 1, "needs": "", "min_pixels": 0}
    row |= {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "request_seeds": seeds}
    outputs = asyncio.run(loop.run({}, **row))
    if not fits:
        assert "a prompt has" in outputs[0].extra_fields["failure"]
        return
    ends = [output.extra_fields["row"]["done"] for output in outputs]
    assert ends == [None] * (fits - 1) + ["FAILURE" if fits == 3 else "TRUNCATION"]
    assert Growing.last.dropped == (fits < 3)
    assert len({sampling.get("seed") for sampling in asked}) == (fits if seeds else 1)
