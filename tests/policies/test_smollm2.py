"""The real weights of SmolLM2-135M-Instruct. Skipped where their package is not installed (make weights)."""

import numpy as np
import pytest
import torch

from bepo.core.errors import UserError
from bepo.envs.sokoban import Sokoban
from bepo.policies.lm.language_model import LanguageModel
from bepo.policies.smollm2 import SmolLM2
from bepo.rollouts.agent import Agent
from bepo.rollouts.collect import Sampling, collect
from bepo.rollouts.task_sets import task_set

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(SmolLM2().missing() is not None, reason=str(SmolLM2().missing())),
]
ENV = Sokoban(min_solution=3, rendering="cells", horizon=3)
BRIEF = Agent(style="brief", history_length=0)


@pytest.fixture(scope="module")
def policy():
    return SmolLM2(max_response_length=24).build(ENV, BRIEF, "cpu")


def test_tokens_are_those_of_the_model_card(policy):
    """The form that the card of SmolLM2-135M-Instruct gives; transformers reads another end token from the file."""
    assert (policy.end_id, policy.pad_id, policy.end_ids) == (2, 0, {2})
    assert policy.tokenizer.convert_ids_to_tokens([0, 1, 2]) == ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    assert policy.tokenizer.decode(policy.encode("What is gravity?")) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nWhat is gravity?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert policy.tokenizer.decode(policy.encode_response("Hello , world .")) == "Hello , world .<|im_end|>"


def test_it_knows_the_capital_of_france(policy):
    almost_greedy = Sampling(temperature=0.01)
    question = "What is the capital of France? Answer with one word."
    (sample,) = policy.sample([question], [()], almost_greedy, 0)
    assert "Paris" in sample.text and sample.response_ids[-1] == 2


def test_the_tree_gives_the_numbers_of_transformers(policy):
    tasks = task_set(ENV, "validation", 2).tasks
    tokens = collect(ENV, BRIEF, policy, tasks, 2, Sampling(), 0).language
    padded = LanguageModel(policy.model, policy.tokenizer, 1024, 24)
    rows = np.arange(len(tokens.response_length))
    with torch.no_grad():
        ours, theirs = (p.log_probs(tokens, rows, Sampling()).logprob for p in (policy, padded))
    torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=0)


def test_a_damaged_file_is_refused(monkeypatch):
    from bepo.policies import smollm2
    from bepo.policies.lm.gguf import converted

    monkeypatch.setattr(smollm2, "_SHA256", "0" * 64)
    converted.cache_clear()
    with pytest.raises(UserError, match="the file is damaged or another version"):
        _ = SmolLM2().weights
