"""Policies that read pictures: the same guarantees as for text, and the same numbers as transformers."""

import copy
from itertools import islice

import numpy as np
import pytest
import torch

from bepo.core.batch import RolloutBatch, Tokens
from bepo.core.errors import UserError
from bepo.envs import IMAGE
from bepo.envs.sokoban import DIRECTIONS, Sokoban
from bepo.losses.ppo_clip import PPOClip
from bepo.policies.pretrained_vl import PretrainedVL
from bepo.policies.tiny import Tiny, WarmStart
from bepo.policies.tiny_vl import TinyVL
from bepo.rollouts.agent import Agent
from bepo.rollouts.collect import Sampling, collect
from bepo.rollouts.task_sets import task_set
from bepo.training import Optimisation
from bepo.training.learner import LocalLearner
from bepo.training.warm_start import fit

pytestmark = pytest.mark.slow

ENV = Sokoban(observation="rgb", horizon=5)
AGENT = Agent(style="compact", history_length=0)


def tiny(**settings):
    small = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vision_hidden_size": 32,
        "warm_start": None,
    }
    return TinyVL(**small | settings).build(ENV, AGENT, "cpu")


def rollouts(policy, sampling=Sampling(), seed=0):  # noqa: B008
    return collect(ENV, AGENT, policy, task_set(ENV, "train", 3).tasks, 3, sampling, seed)


def board():
    return ENV.start(task_set(ENV, "train", 1).tasks).observations[0].image


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.4), Sampling(top_k=3)])
def test_log_probs_are_those_of_the_distribution_of_sampling(constrained, sampling):
    policy = tiny(constrained=constrained)
    batch = rollouts(policy, sampling)
    log_probs = policy.log_probs(batch.tokens, range(len(batch)), sampling)
    logprob = log_probs.logprob[log_probs.mask].detach().numpy()
    np.testing.assert_allclose(np.exp(logprob - batch.tokens.logprob), 1, atol=1e-5)


def test_the_numbers_are_those_of_transformers():
    """Log-probabilities are those of a model that computes pixel values, image tokens and positions itself."""
    policy = tiny(spatial_merge_size=2, patch_size=8)
    batch = rollouts(policy)
    tokens, i = batch.tokens, len(batch) - 1
    ids = torch.tensor([[*tokens.prompt(i).tolist(), *tokens.response(i).tolist()]])
    processed = policy.image_processor(images=[tokens.picture(i)], return_tensors="pt")
    assert int(processed["image_grid_thw"].prod()) // 4 == int((ids == policy.image_token).sum()) == 36
    with torch.no_grad():
        logits = policy.model(
            input_ids=ids,
            mm_token_type_ids=(ids == policy.image_token).int(),
            attention_mask=torch.ones_like(ids),
            **processed,
        ).logits
        ours = policy.log_probs(tokens, [i, 0], Sampling()).logprob[0]
    n = len(tokens.response(i))
    theirs = logits[0, -n - 1 : -1].log_softmax(-1).gather(1, ids[0, -n:, None]).squeeze(1)
    torch.testing.assert_close(ours[:n], theirs, atol=1e-5, rtol=0)


def test_padding_and_company_change_nothing():
    """A transition has the same log-probabilities alone and in a batch with longer ones and one without a picture."""
    policy = tiny()
    rows = [
        {"prompt_ids": policy.encode(text, image), "response_ids": [9, 1], "logprobs": [0.0, 0.0], "image": image}
        for text, image in ((f"now {IMAGE} step 1", board()), (f"step step step {IMAGE}", board()), ("now", None))
    ]
    tokens = Tokens.pack(rows)
    assert tokens.image.tolist() == [0, 0, -1] and len(tokens.images) == 1
    together = policy.log_probs(tokens, range(3), Sampling()).logprob
    for i in range(3):
        torch.testing.assert_close(policy.log_probs(tokens, [i], Sampling()).logprob[0], together[i], atol=1e-5, rtol=0)


def test_an_image_token_in_a_response_is_only_a_word():
    policy = tiny()
    row = {"prompt_ids": policy.encode(IMAGE, board()), "response_ids": [policy.image_token, 1], "logprobs": [0.0] * 2}
    log_probs = policy.log_probs(Tokens.pack([row | {"image": board()}]), [0], Sampling())
    assert torch.isfinite(log_probs.logprob).all()


def test_what_is_seen_matters_and_learns():
    """Another picture gives other log-probabilities, and the gradient reaches the first layer that sees."""
    policy = tiny()
    prompt = policy.encode(IMAGE, board())
    rows = [
        {"prompt_ids": prompt, "response_ids": [9, 1], "logprobs": [0.0, 0.0], "image": picture}
        for picture in (board(), np.ascontiguousarray(board()[::-1]))
    ]
    log_probs = policy.log_probs(Tokens.pack(rows), [0, 1], Sampling())
    assert (log_probs.logprob[0] - log_probs.logprob[1]).abs().max() > 1e-4
    log_probs.logprob.sum().backward()
    first = policy.model.base_model.visual.patch_embed.proj.weight
    assert first.grad is not None and first.grad.abs().max() > 0


def test_an_update_starts_at_ratio_one_and_moves_the_tower_but_not_its_reference():
    policy = tiny()
    learner = LocalLearner(policy, PPOClip(), Optimisation(learning_rate=1e-3, minibatch_size=8), Sampling())
    batch = rollouts(policy)
    before = copy.deepcopy(policy.model.state_dict())
    advantage = np.random.default_rng(0).normal(size=len(batch.tokens.logprob))
    stats = learner.update(batch, advantage, seed=0)
    assert stats["first_ratio_error"] < 1e-5 and stats["kl"] > 0
    moved = {n for n, v in policy.model.state_dict().items() if not torch.equal(v, before[n])}
    assert any("visual" in n for n in moved) and any("lm_head" in n for n in moved)
    assert all(torch.equal(v, before[n]) for n, v in learner.reference.model.state_dict().items())


@pytest.mark.parametrize("frozen", [False, True])
def test_a_frozen_tower_stays_as_it_was_drawn(frozen):
    """In the warm start and in reinforcement learning."""
    policy = tiny(freeze_vision=frozen)
    boards = task_set(ENV, "train", 3)

    def moves_the_tower(train):
        before = copy.deepcopy(policy.model.base_model.visual.state_dict())
        train()
        return any(not torch.equal(v, before[n]) for n, v in policy.model.base_model.visual.state_dict().items())

    brief = WarmStart(episodes=3, max_steps=1, batch_size=4)
    assert moves_the_tower(lambda: fit(policy, brief, ENV, AGENT, boards, boards, Sampling())) != frozen
    batch = rollouts(policy)
    advantage = np.random.default_rng(0).normal(size=len(batch.tokens.logprob))
    learner = LocalLearner(policy, PPOClip(), Optimisation(learning_rate=1e-3), Sampling())
    assert moves_the_tower(lambda: learner.update(batch, advantage, seed=0)) != frozen


def test_saved_weights_load_as_pretrained(tmp_path):
    """The real loading code, on a checkpoint as transformers writes it."""
    policy = tiny()
    policy.save(tmp_path)
    settings = {"path": str(tmp_path), "max_response_length": 2}
    again = PretrainedVL(**settings, min_pixels=1024).build(ENV, AGENT, "cpu")
    assert again.encode(f"now {IMAGE} up", board()) == policy.encode(f"now {IMAGE} up", board())
    batch = rollouts(policy)
    both = [p.log_probs(batch.tokens, range(len(batch)), Sampling()).logprob for p in (policy, again)]
    torch.testing.assert_close(*both)
    larger = PretrainedVL(**settings, min_pixels=176 * 176, freeze_vision=True).build(ENV, AGENT, "cpu")
    assert larger.encode(IMAGE, board()).count(larger.image_token) == 11 * 11
    assert not any(p.requires_grad for p in larger.model.base_model.visual.parameters())


def test_a_picture_is_a_state_exactly_as_its_board_is():
    """Random play, seen both ways: equal keys if and only if equal boards."""
    tasks = list(islice(ENV.tasks("train"), 20))
    as_text, as_pictures = Sokoban().start(tasks), ENV.start(tasks)
    rng, keys = np.random.default_rng(0), set()
    for _ in range(12):
        keys |= {(a.key, b.key, b.image.tobytes()) for a, b in zip(as_text.observations, as_pictures.observations)}
        actions = {i: DIRECTIONS[rng.integers(4)] for i in range(len(tasks))}
        for a, b in zip(as_text.step(actions).values(), as_pictures.step(actions).values()):
            assert (a.reward, a.terminal, a.task_score) == (b.reward, b.terminal, b.task_score)
    assert len(keys) == len({k[0] for k in keys}) == len({k[1] for k in keys}) == len({k[2] for k in keys}) > 60


def test_groups_keep_each_picture_once(tmp_path):
    batch = rollouts(tiny())
    tokens = batch.tokens
    assert len(tokens.images) == len(set(np.array(batch.state_key)[batch.state])) < len(batch)
    batch.save(tmp_path / "g.npz")
    again = RolloutBatch.load(tmp_path / "g.npz").tokens
    both = RolloutBatch.concat([batch, batch]).tokens
    assert len(both.images) == len(tokens.images)
    for i in range(len(batch)):
        for other, j in ((again, i), (both, len(batch) + i)):
            np.testing.assert_array_equal(other.picture(j), tokens.picture(i))


def test_pictures_of_two_sizes_are_refused():
    row = {"prompt_ids": [1], "response_ids": [2], "logprobs": [0.0]}
    with pytest.raises(UserError, match="one size"):
        Tokens.pack([row | {"image": np.zeros((n, n, 3), np.uint8)} for n in (2, 3)])


def test_the_visual_prompt_explains_the_sprites():
    observation = ENV.start(task_set(ENV, "train", 1).tasks).observations[0]
    prompt = Agent(history_length=0).prompt(ENV.prompt, "", observation, [("before", "up")])
    assert prompt.count(IMAGE) == 1 and "crate" in prompt and "√" not in prompt and "before" not in prompt


def test_errors_name_value_and_remedy(monkeypatch):
    with pytest.raises(UserError, match=r"env\.observation=rgb"):
        TinyVL().build(Sokoban(), AGENT, "cpu")
    with pytest.raises(UserError, match=r"agent\.style=compact"):
        TinyVL().build(ENV, Agent(), "cpu")
    with pytest.raises(UserError, match=r"policy\.vision_hidden_size=40"):
        TinyVL(vision_hidden_size=40)
    with pytest.raises(UserError, match=r"policy\.hidden_size=32 must be a multiple of 8"):
        TinyVL(hidden_size=32)  # columns would all look alike
    with pytest.raises(UserError, match="tiny_vl"):
        rollouts(Tiny(warm_start=None).build(ENV, AGENT, "cpu"))
    monkeypatch.setattr("bepo.envs.sokoban.render.find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install"):
        Sokoban(observation="rgb", tiles="gym").start(task_set(ENV, "train", 1).tasks)
