"""The prompts that vLLM is given are those that the policy of the local backend would read."""

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
