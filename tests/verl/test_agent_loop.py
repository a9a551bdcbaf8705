"""What vLLM is asked is what the policy of the local backend would read."""

from types import SimpleNamespace

import numpy as np
import pytest
from verl.utils import hf_processor, hf_tokenizer

from bepo.agents import Agent
from bepo.envs.sokoban import Sokoban
from bepo.errors import UserError
from bepo.panels import panel
from bepo.policies.tiny import Tiny
from bepo.policies.tiny_vl import TinyVL
from bepo.training.verl.agent_loop import StepLoop
from bepo.training.verl.episodes import Question

AGENT = Agent(style="compact", history_length=0)


def asked(env, settings, folder):
    """A policy, the loop with what verl loads of it, and what an episode asks first."""
    policy = settings.build(env, AGENT, "cpu")
    policy.save(folder)
    rollout = SimpleNamespace(prompt_length=policy.max_prompt)
    actor = SimpleNamespace(rollout=rollout, model=SimpleNamespace(path=str(folder)))
    config = SimpleNamespace(config=SimpleNamespace(actor_rollout_ref=actor))
    loop = StepLoop(config, None, hf_tokenizer(str(folder)), hf_processor(str(folder)))
    episodes = env.start(panel(env, "train", 1).tasks)
    seen = episodes.observations[0]
    return policy, loop, Question(AGENT.prompt(env.prompt, episodes.instructions[0], seen, []), (), seen.image)


def test_a_prompt(tmp_path):
    policy, loop, question = asked(Sokoban(), Tiny(warm_start=None, heads=2, layers=1), tmp_path)
    assert loop.processor is None
    ids = loop._encode(question, {})
    assert ids == policy.encode(question.prompt)
    loop.max_prompt = len(ids) - 1
    with pytest.raises(UserError, match=f"a prompt has {len(ids)} tokens, policy.max_prompt is {len(ids) - 1}"):
        loop._encode(question, {})


def test_a_prompt_with_a_picture(tmp_path):
    settings = TinyVL(warm_start=None, hidden=32, layers=1, heads=4)
    policy, loop, question = asked(Sokoban(observation="rgb"), settings, tmp_path)
    picture = loop._picture(question, 0)
    pixels, expected = (
        of.image_processor(images=[image], return_tensors="pt")
        for of, image in ((loop.processor, picture), (policy, question.image))
    )
    assert loop._encode(question, {"images": [picture]}) == policy.encode(question.prompt, question.image)
    assert (pixels["image_grid_thw"] == expected["image_grid_thw"]).all()
    np.testing.assert_allclose(pixels["pixel_values"], expected["pixel_values"], rtol=1e-6)
    loop.processor = None
    with pytest.raises(UserError, match="shows pictures"):
        loop._picture(question, 0)
