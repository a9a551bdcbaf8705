"""Pretrained weights in this process: shared prefixes, kept states, adapters. On tiny random models."""

import copy
import json
from functools import cache, partial

import numpy as np
import peft
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

from bepo.core.errors import UserError
from bepo.envs.alfworld import ALFWorld
from bepo.envs.sokoban import Sokoban
from bepo.losses.ppo_clip import PPOClip
from bepo.policies import LoRA
from bepo.policies.lm import kept_states, pretrained_model
from bepo.policies.lm.adapters import save_merged
from bepo.policies.lm.chat import end_of_answer
from bepo.policies.lm.gguf import repair
from bepo.policies.lm.language_model import LanguageModel
from bepo.policies.lm.pretrained_model import PretrainedModel
from bepo.policies.pretrained import Pretrained
from bepo.policies.pretrained_vl import PretrainedVL
from bepo.rollouts.agent import Agent
from bepo.rollouts.collect import Sampling, collect
from bepo.rollouts.task_sets import task_set
from bepo.training import CriticSettings, Optimisation
from bepo.training.critic import Critic
from bepo.training.learner import LocalLearner
from tests.policies.test_prefix_sharing import Batch, Paths, batches, compare, rms_norm
from tests.pretrained import CHAT_ML, byte_pairs, save_tiny

ENVIRONMENTS = {
    "sokoban": Sokoban(horizon=6, min_solution=3, rendering="cells"),
    "alfworld": ALFWorld(max_receptacles=8, horizon=4, rendering="compact"),
}
AGENT = Agent(style="brief", history_length=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("llama"))


def build(folder, env="sokoban", **settings):
    given = {"constrained": True, "max_response_length": 12, **settings}
    return Pretrained(path=str(folder), **given).build(ENVIRONMENTS[env], AGENT, "cpu")


def rollouts(policy, env="sokoban", seed=0):
    tasks = task_set(ENVIRONMENTS[env], "train", 2).tasks
    return collect(ENVIRONMENTS[env], AGENT, policy, tasks, 4, Sampling(), seed)


# --- the prefix tree --------------------------------------------------------------------------------------


@cache
def paths(architecture, layers, tmp):
    """One model by either path, in either precision."""
    built = build(save_tiny(tmp / f"{architecture}{layers}", architecture, layers), max_prompt_length=4096)
    both = [LanguageModel(copy.deepcopy(built.model), built.tokenizer, 4096, 12, True) for _ in range(2)]
    tree64 = copy.copy(built)
    tree64.model = copy.deepcopy(built.model).double()
    both[1].model.double()
    for model in (tree64.model, both[1].model):
        for module in model.modules():
            if type(module).__name__.endswith("RMSNorm"):  # transformers' own computes in float32 whatever it is given
                module.forward = partial(rms_norm, module)
    return Paths(built, tree64, *both)


@pytest.fixture(scope="module")
def tmp(tmp_path_factory):
    return tmp_path_factory.mktemp("checkpoints")


@given(tokens=batches(), architecture=st.sampled_from(["llama", "qwen2", "qwen3"]), layers=st.sampled_from([1, 3]))
def test_the_tree_gives_the_numbers_of_the_padded_path(tmp, tokens, architecture, layers):
    compare(paths(architecture, layers, tmp), tokens, well_conditioned=False)


@pytest.mark.parametrize("env", list(ENVIRONMENTS))
def test_the_same_seed_gives_the_same_tokens_by_either_path(folder, env):
    tree, padded = build(folder, env), build(folder, env, share_prefixes="no")
    assert isinstance(tree, PretrainedModel) and not isinstance(padded, PretrainedModel)
    ours, theirs = rollouts(tree, env).language, rollouts(padded, env).language
    np.testing.assert_array_equal(ours.ids, theirs.ids)
    np.testing.assert_allclose(ours.logprob, theirs.logprob, atol=1e-5)


def test_a_model_that_the_tree_cannot_compute_is_padded_or_refused(tmp_path):
    folder = save_tiny(tmp_path, "mistral", sliding_window=4)
    assert type(build(folder)) is LanguageModel
    with pytest.raises(
        UserError, match=r"share_prefixes=yes: needs a model of type llama, qwen2, qwen3, not 'mistral'"
    ):
        build(folder, share_prefixes="yes")


@pytest.mark.parametrize("architecture", ["mistral", "gemma3_text"])
def test_a_sliding_window_sees_the_same_tokens_in_sampling_and_in_the_update(tmp_path, architecture):
    """Actions of several tokens, some of them certain, so rows advance by different numbers of tokens."""
    policy = build(save_tiny(tmp_path, architecture, sliding_window=4), "alfworld", max_prompt_length=4096)
    assert type(policy) is LanguageModel
    language = rollouts(policy, "alfworld").language
    n = len(language.prompt_length)
    with torch.no_grad():
        again = policy.log_probs(language, np.arange(n), Sampling())
    np.testing.assert_allclose(again.logprob[again.mask].numpy(), language.logprob, atol=1e-4)


# --- adapters ---------------------------------------------------------------------------------------------

LORA = LoRA(rank=4, layers=2)


def learner(policy, **settings):
    given = {"learning_rate": 1e-2, "minibatch_size": 64, "epochs": 2, "kl_coef": 0.1, **settings}
    return LocalLearner(policy, PPOClip(), Optimisation(**given), Sampling())


def train(policy, env="sokoban", updates=2, before=None, seeds=(0, 1)):
    """Make some updates, and return the statistics of the last one."""
    found = before or learner(policy)
    for seed in list(seeds)[:updates]:
        policy.forget()
        batch = rollouts(policy, env, seed)
        advantage = np.random.default_rng(seed).normal(size=len(batch.language.logprob))
        stats = found.update(Batch(batch.language), advantage, seed)
    return stats


def weights(policy):
    return torch.cat([p.detach().flatten() for p in policy.model.parameters() if p.requires_grad])


@pytest.mark.parametrize("env", ["sokoban", pytest.param("alfworld", marks=pytest.mark.long)])
def test_kept_states_change_nothing(folder, env, monkeypatch):
    """States and logits that sampling keeps give the update of a model that computes everything anew."""
    kept, padded = build(folder, env, lora=LORA), build(folder, env, lora=LORA, share_prefixes="no")
    asked, of = [], type(kept._kept).of
    monkeypatch.setattr(type(kept._kept), "of", lambda *given: asked.append(of(*given)) or asked[-1])
    stats = train(kept, env), train(padded, env)
    assert asked and all(states is not None for states in asked)
    assert stats[0] == pytest.approx(stats[1], rel=2e-3, abs=2e-5)
    torch.testing.assert_close(weights(kept), weights(padded), atol=2e-4, rtol=0)


def test_states_and_logits_above_their_limits_are_computed_again(folder, monkeypatch):
    """If the first part of a tree is left out, its continuations are, too: their numbers count from its beginning."""
    added, add = [], kept_states.KeptStates.add
    monkeypatch.setattr(kept_states.KeptStates, "add", lambda *given: added.append(len(given[-1])) or add(*given))
    for env in ENVIRONMENTS:
        monkeypatch.setattr(kept_states, "_MOST_TOKENS", 10**9)
        added.clear()
        rollouts(build(folder, env, lora=LORA), env)
        sizes = list(added)
        for most in (0, sizes[0] - 1, sum(sizes) // 2):
            monkeypatch.setattr(kept_states, "_MOST_TOKENS", most)
            monkeypatch.setattr(pretrained_model, "_MOST_LOGITS", most)
            limited, padded = build(folder, env, lora=LORA), build(folder, env, lora=LORA, share_prefixes="no")
            ours, theirs = rollouts(limited, env).language, rollouts(padded, env).language
            np.testing.assert_array_equal(ours.ids, theirs.ids)
            for i in range(len(ours.prompt_length)):
                some = np.array([i])
                found, wanted = (policy.log_probs(ours, some, Sampling()).logprob for policy in (limited, padded))
                torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)


def test_only_the_upper_adapters_are_trained(folder):
    policy = build(folder, lora=LORA)
    before = {name: p.clone() for name, p in policy.model.named_parameters()}
    train(policy)
    changed = {name for name, p in policy.model.named_parameters() if not torch.equal(p, before[name])}
    assert changed and all("lora_" in name and (".layers.1." in name or ".layers.2." in name) for name in changed)


def test_new_adapters_change_nothing_and_the_reference_is_the_base(folder):
    bare, adapted = build(folder), build(folder, lora=LORA)
    ours, theirs = rollouts(adapted).language, rollouts(bare).language
    np.testing.assert_array_equal(ours.logprob, theirs.logprob)
    found = learner(adapted)
    train(adapted, before=found)
    adapted.forget()
    chosen = np.arange(20)
    reference = found.reference.log_probs(theirs, chosen, Sampling()).logprob
    torch.testing.assert_close(reference, bare.log_probs(theirs, chosen, Sampling()).logprob.detach())
    assert not torch.equal(reference, adapted.log_probs(theirs, chosen, Sampling()).logprob)


def test_the_reference_and_the_critic_share_frozen_weights(folder):
    policy = build(folder, lora=LORA)
    frozen = {p.data_ptr() for p in policy.model.parameters() if not p.requires_grad}
    for other in (policy.frozen_copy().model, Critic(policy, CriticSettings()).backbone):
        mine = {p.data_ptr() for name, p in other.named_parameters() if "lora_" not in name}
        assert mine <= frozen
        assert not frozen & {p.data_ptr() for name, p in other.named_parameters() if "lora_" in name}


def test_a_resumed_training_has_the_same_weights(folder, tmp_path):
    whole = build(folder, lora=LORA)
    train(whole, updates=3, seeds=(0, 1, 2))
    first = build(folder, lora=LORA)
    of_first = learner(first)
    train(first, updates=2, before=of_first)
    of_first.save(tmp_path)
    resumed = build(folder, lora=LORA)
    of_resumed = learner(resumed)
    of_resumed.load(tmp_path)
    train(resumed, updates=1, before=of_resumed, seeds=(2,))
    assert torch.equal(weights(resumed), weights(whole))


def test_peft_loads_what_is_saved_and_merged_weights_give_the_same(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(Pretrained, "origin", "some/weights")
    policy = build(folder, lora=LORA)
    train(policy)
    policy.save(tmp_path / "adapters")
    config = json.loads((tmp_path / "adapters" / "adapter_config.json").read_text(encoding="utf-8"))
    assert config["base_model_name_or_path"] == "some/weights" and config["r"] == 4
    assert config["target_modules"] == sorted(config["target_modules"])  # equal adapters have equal files
    loaded = peft.PeftModel.from_pretrained(
        transformers.AutoModelForCausalLM.from_pretrained(folder), tmp_path / "adapters"
    )
    save_merged(str(folder), tmp_path / "adapters", tmp_path / "merged")
    merged = build(tmp_path / "merged")
    replaced = build(folder, lora=LORA)  # as an evaluation of a run of backend=verl does
    replaced.load_weights(tmp_path / "merged")
    ids = torch.tensor([policy.encode("Now")])
    with torch.no_grad():
        ours = policy.model(ids).logits
        assert not torch.allclose(ours, build(folder).model(ids).logits, atol=1e-3)
        for other in (loaded, merged.model, replaced.model):
            torch.testing.assert_close(other(ids).logits, ours, atol=1e-4, rtol=1e-4)
    assert merged.tokenizer.eos_token == "<|im_end|>"


def test_adapters_of_another_shape_are_refused(folder, tmp_path):
    build(folder, lora=LoRA(rank=4, layers=1)).save(tmp_path)
    with pytest.raises(UserError, match=r"its adapters do not fit policy\.lora"):
        build(folder, lora=LORA).load_weights(tmp_path)
    (tmp_path / "adapter_model.safetensors").unlink()
    with pytest.raises(UserError, match=r"not a folder of adapters \(adapter_model\.safetensors is missing\)"):
        build(folder, lora=LORA).load_weights(tmp_path)


@pytest.mark.parametrize(
    "settings, message",
    [
        (
            {"modules": ["q_proj", "nope"]},
            r"policy\.lora\.modules=\['nope'\]: no such linear layer; choices: down_proj",
        ),
        ({"layers": 4}, r"policy\.lora\.layers=4: the model has 3 layers"),
    ],
)
def test_unknown_layers_are_refused(folder, settings, message):
    with pytest.raises(UserError, match=message):
        build(folder, lora=LoRA(rank=2, **settings))


@pytest.mark.parametrize("settings", [{"layers": 2}, {"modules": ["q_proj"]}])
def test_settings_of_adapters_without_adapters_are_refused(settings):
    with pytest.raises(UserError, match=r"has no effect with policy\.lora\.rank=0"):
        LoRA(**settings)


# --- tokens -----------------------------------------------------------------------------------------------


def test_a_wrong_end_token_and_missing_padding_are_corrected():
    """As in the tokenizer that transformers makes from SmolLM2's GGUF file."""
    tokenizer = byte_pairs(end="<|im_start|>")
    assert end_of_answer(tokenizer) == "<|im_end|>"
    lines = list(repair(tokenizer))
    assert tokenizer.eos_token == "<|im_end|>" and tokenizer.pad_token == "<|endoftext|>"
    assert [line.split()[0] for line in lines] == ["end", "no"]
    assert not list(repair(tokenizer))


def test_a_template_without_an_end_token_changes_nothing():
    tokenizer = byte_pairs()
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
    assert end_of_answer(tokenizer) is None and tokenizer.eos_token == "<|im_end|>"


def test_prompts_have_the_form_of_the_template(folder):
    policy = build(folder)
    text = policy.tokenizer.decode(policy.encode("Push."))
    system = "<|im_start|>system\nYou are a helpful AI assistant.<|im_end|>\n"
    assert text == f"{system}<|im_start|>user\nPush.<|im_end|>\n<|im_start|>assistant\n"
    assert policy.encode_response("up")[-1] == policy.tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert policy.tokenizer.chat_template == CHAT_ML


def test_an_answer_ends_as_in_the_template_if_generation_may_stop_there(tmp_path):
    """As in Gemma, whose eos_token is not the token that ends a turn."""
    folder = save_tiny(tmp_path)
    tokenizer = byte_pairs(end="<|endoftext|>")
    tokenizer.save_pretrained(folder)
    ends = {}
    for listed in ([0, 2], [0]):
        transformers.GenerationConfig(eos_token_id=listed).save_pretrained(folder)
        ends[len(listed)] = build(folder).encode_response("up")[-1]
    assert tokenizer.convert_ids_to_tokens([ends[2], ends[1]]) == ["<|im_end|>", "<|endoftext|>"]


def test_a_template_that_writes_the_date_writes_the_same_every_day(folder):
    policy = build(folder)
    policy.tokenizer.chat_template = "{{ strftime_now('%d %b %Y') }}: {{ messages[0]['content'] }}"
    assert policy.tokenizer.decode(policy.encode("Push.")) == "26 Jul 2024: Push."


@pytest.mark.parametrize("policy", [Pretrained, PretrainedVL])
@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "chat_template.jinja"])
def test_every_file_that_changes_what_a_checkpoint_does_changes_its_digest(tmp_path, policy, name):
    save_tiny(tmp_path)
    before = policy(path=str(tmp_path)).weights_digest
    with (tmp_path / name).open("ab") as file:
        file.write(b" ")
    assert before and policy(path=str(tmp_path)).weights_digest not in (None, before)
