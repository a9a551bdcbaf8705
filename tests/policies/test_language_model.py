"""The interface to transformers models, tested on tiny models with the real code."""

import json
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bepo.core.batch import Terminal
from bepo.core.errors import UserError
from bepo.envs.alfworld import ALFWorld
from bepo.envs.sokoban import DIRECTIONS, Sokoban
from bepo.envs.webshop import WebShop
from bepo.policies.lm.language_model import LanguageModel
from bepo.policies.pretrained import Pretrained, end_ids_of, load_pretrained
from bepo.policies.tiny import Tiny
from bepo.rollouts.agent import Agent
from bepo.rollouts.collect import Overlong, Sampling, collect, overlong
from bepo.rollouts.evaluation import episode_rows
from bepo.rollouts.task_sets import task_set
from bepo.runs.metrics import rollout_metrics

ENV = Sokoban(horizon=6)
COMPACT = Agent(style="compact", history_observations=False)
PRINTABLE = st.characters(exclude_categories=["C"])
SAMPLINGS = [Sampling(), Sampling(temperature=0.4), Sampling(temperature=1.3, top_p=0.7), Sampling(top_k=3)]


@cache
def tiny(**settings):
    return Tiny(warm_start=None, **settings).build(ENV, COMPACT, "cpu")


def rollouts(policy, sampling, seed=0):
    return collect(ENV, COMPACT, policy, task_set(ENV, "train", 4).tasks, 3, sampling, seed)


@pytest.mark.slow
@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_log_probs_are_those_of_the_distribution_of_sampling(constrained, sampling):
    """Importance ratios are then 1 before the first optimiser step."""
    policy = tiny(constrained=constrained)
    batch = rollouts(policy, sampling)
    log_probs = policy.log_probs(batch.tokens, range(len(batch)), sampling)
    logprob = log_probs.logprob[log_probs.mask].detach().numpy()
    np.testing.assert_allclose(np.exp(logprob - batch.tokens.logprob), 1, atol=1e-5)
    assert log_probs.mask.sum() == len(batch.tokens.logprob)


def test_another_distribution_gives_other_ratios():
    """The test above can fail."""
    policy = tiny()
    batch = rollouts(policy, Sampling())
    log_probs = policy.log_probs(batch.tokens, range(len(batch)), Sampling(temperature=0.4))
    logprob = log_probs.logprob[log_probs.mask].detach().numpy()
    assert np.abs(np.exp(logprob - batch.tokens.logprob) - 1).max() > 0.05


def test_constrained_sampling_yields_admissible_actions_only():
    batch = rollouts(tiny(constrained=True), Sampling())
    assert batch.valid.all()
    policy = tiny(constrained=True)
    samples = policy.sample(["now"] * 50, [("left", "up")] * 25 + [DIRECTIONS] * 25, Sampling(), 0)
    assert {s.text for s in samples[:25]} == {"left", "up"}
    assert {s.text for s in samples[25:]} == set(DIRECTIONS)


def test_entropy_of_a_constrained_choice():
    """Four admissible actions, then a forced end: entropies between 0 and log 4, with finite gradients."""
    policy = tiny(constrained=True)
    batch = rollouts(policy, Sampling())
    log_probs = policy.log_probs(batch.tokens, range(len(batch)), Sampling())
    assert (log_probs.entropy[:, 0] <= np.log(4) + 1e-6).all() and (log_probs.entropy[:, 0] > 0).all()
    torch.testing.assert_close(log_probs.entropy[:, 1], torch.zeros(len(batch)))
    (log_probs.logprob.sum() + log_probs.entropy.sum()).backward()
    assert all(torch.isfinite(p.grad).all() for p in policy.model.parameters())


def test_seeds_decide():
    policy = tiny()
    a, b, c = (rollouts(policy, Sampling(), seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(a.tokens.ids, b.tokens.ids)
    assert len(a) != len(c) or (a.tokens.ids != c.tokens.ids).any()


def test_padding_changes_nothing():
    """A transition has the same log-probabilities alone and in a batch with longer ones."""
    policy = tiny()
    batch = rollouts(policy, Sampling())
    together = policy.log_probs(batch.tokens, range(len(batch)), Sampling()).logprob
    for i in (0, len(batch) // 2, len(batch) - 1):
        alone = policy.log_probs(batch.tokens, [i], Sampling()).logprob[0]
        torch.testing.assert_close(together[i][: len(alone)], alone, atol=1e-5, rtol=0)


def test_tokenizer_splits_boards_into_cells_and_keeps_words():
    tokenizer = tiny().tokenizer
    pieces = tokenizer.convert_ids_to_tokens(tokenizer.encode("now ##_X\n√PSO step 3 <act>"))
    assert pieces == ["now", "#", "#", "_", "X", "√", "P", "S", "O", "step", "3", "<act>"]
    assert tokenizer.decode(tokenizer.encode("up down")) == "up down"
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("kitchen")) == ["<unk>"]


@given(st.text(st.sampled_from("aB2 #_√<>|\n\t\x0b\u2028é.act")) | st.text(PRINTABLE))
def test_prompts_are_split_as_the_tokenizer_does(text):
    policy = tiny()
    assert policy.encode(text) == LanguageModel._chat(policy, text)


@pytest.mark.parametrize("env", [ENV, WebShop(products=150, rendering="compact"), ALFWorld(rendering="compact")])
def test_every_word_of_an_environment_is_known_and_split_as_the_tokenizer_does(env):
    policy = Tiny(warm_start=None).build(env, COMPACT, "cpu")
    text = " ".join(env.prompt.vocabulary)
    ids = policy._chat(text)
    assert ids == LanguageModel._chat(policy, text) and policy.tokenizer.unk_token_id not in ids


def test_weights_that_the_hub_lacks_are_not_downloaded(monkeypatch):
    """transformers would try for a minute."""

    def refuse(*_, **__):
        raise ConnectionError("nobody there")

    class Part:
        from_pretrained = pytest.fail

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", refuse)
    with pytest.raises(
        UserError,
        match=r"policy.path='no/model': not a folder .* model hub; .* hf download no/model; .* \(nobody there\)",
    ):
        load_pretrained(Part, "no/model")


def test_an_episode_ends_where_its_next_prompt_is_too_long():
    """Such an episode counts as a failure and keeps its first steps."""
    whole = rollouts(tiny(), Sampling())
    lengths = np.array([len(whole.tokens.prompt(i)) for i in range(len(whole))])
    assert (lengths[whole.step == 0] == lengths[0]).all() and (lengths[whole.step == 1] > lengths[0]).all()
    batch = rollouts(tiny(max_prompt_length=int(lengths[0])), Sampling())
    first = whole.step == 0
    assert batch.n_trajectories == whole.n_trajectories == len(batch)
    assert batch.actions == [action for action, chosen in zip(whole.actions, first) if chosen]
    assert (batch.reward == whole.reward[first]).all()
    solved = whole.terminal[first] == Terminal.SUCCESS
    assert (batch.terminal == np.where(solved, Terminal.SUCCESS, Terminal.TRUNCATION)).all()
    assert not overlong(whole, ENV.horizon).any() and (overlong(batch, ENV.horizon) == ~solved).all()
    assert rollout_metrics(batch, 2, {0}, ENV.horizon)["train/overlong_episodes"] == (~solved).sum()
    assert "train/overlong_episodes" not in rollout_metrics(whole, 2, {0}, ENV.horizon)
    tasks = task_set(ENV, "train", 4)
    alone = collect(ENV, COMPACT, tiny(max_prompt_length=int(lengths[0])), tasks.tasks, 1, Sampling(), 0)
    rows = episode_rows(alone, tasks, 0, ENV.horizon)
    assert [row.get("overlong", False) for row in rows] == [not row["success"] for row in rows]


def test_a_prompt_that_is_too_long_leaves_the_others_as_they_are():
    policy = tiny(max_prompt_length=8)
    long, fits = "now " * 20, ["now", "now up"]
    samples = policy.sample([fits[0], long, fits[1]], [DIRECTIONS] * 3, Sampling(), 0)
    assert isinstance(samples[1], Overlong) and [samples[0], samples[2]] == policy.sample(
        fits, [DIRECTIONS] * 2, Sampling(), 0
    )
    assert all(isinstance(sample, Overlong) for sample in policy.sample([long], [DIRECTIONS], Sampling(), 0))


def test_a_checkpoint_that_brings_code_is_refused_and_nobody_is_asked(tmp_path, monkeypatch):
    """On a terminal transformers asks whether to run it, and here the answer would be yes."""
    tiny().save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    own = {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}
    (tmp_path / "config.json").write_text(
        json.dumps(config | {"model_type": "its_own", "auto_map": own}), encoding="utf-8"
    )
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')", encoding="utf-8")
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    with pytest.raises(UserError, match=r"policy.path=.*custom code"):
        Pretrained(path=str(tmp_path)).build(ENV, COMPACT, "cpu")
    assert not (tmp_path / "ran").exists()


def test_a_saved_policy_loads_as_pretrained(tmp_path):
    policy = tiny()
    policy.save(tmp_path)
    again = Pretrained(path=str(tmp_path), max_prompt_length=128, max_response_length=2).build(ENV, COMPACT, "cpu")
    assert again.encode("now ##_X\nup") == policy.encode("now ##_X\nup")
    batch = rollouts(policy, Sampling())
    both = [p.log_probs(batch.tokens, range(len(batch)), Sampling()).logprob for p in (policy, again)]
    torch.testing.assert_close(*both)


def test_errors_name_value_and_choices(tmp_path):
    with pytest.raises(UserError, match="no/such/model"):
        Pretrained(path="no/such/model").build(ENV, COMPACT, "cpu")
    with pytest.raises(UserError, match=r"agent\.style=compact"):
        Tiny().build(ENV, Agent(), "cpu")
    with pytest.raises(UserError, match=r"policy\.hidden_size=65"):
        Tiny(hidden_size=65)
    with pytest.raises(UserError, match=r"policy\.max_prompt_length is 8"):
        rollouts(tiny(max_prompt_length=8), Sampling())


@pytest.mark.parametrize("listed", [None, "one", "list"])
def test_a_response_ends_with_every_end_token_of_the_checkpoint(listed, tmp_path):
    """Llama-3, Gemma and Qwen list several in generation_config.json."""
    policy = tiny()
    own, other = policy.end_id, policy.tokenizer.convert_tokens_to_ids("up")
    policy.save(tmp_path)
    saved = json.loads((tmp_path / "generation_config.json").read_text(encoding="utf-8"))
    saved["eos_token_id"] = {None: None, "one": own, "list": [own, other]}[listed]
    (tmp_path / "generation_config.json").write_text(json.dumps(saved), encoding="utf-8")
    loaded = Pretrained(path=str(tmp_path)).build(ENV, COMPACT, "cpu")
    assert (
        loaded.end_ids == end_ids_of(str(tmp_path), loaded.tokenizer) == ({own, other} if listed == "list" else {own})
    )
    loaded.max_response_length = 8
    samples = loaded.sample(["now"] * 200, [()] * 200, Sampling(), 0)
    assert all(not loaded.end_ids & set(sample.response_ids[:-1]) for sample in samples)
    assert any(sample.response_ids[-1] == other and len(sample.response_ids) < 8 for sample in samples) == (
        listed == "list"
    )


def test_a_tokenizer_without_an_end_token_is_refused(tmp_path):
    tiny().save(tmp_path)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings | {"eos_token": None}), encoding="utf-8")
    with pytest.raises(UserError, match="eos_token"):
        Pretrained(path=str(tmp_path)).build(ENV, COMPACT, "cpu")
