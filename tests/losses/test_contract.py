"""The contract of all losses. A new file in bepo/losses is tested without a change here."""

import pickle
from dataclasses import fields
from typing import get_type_hints

import pytest
import torch

from bepo.core.registry import choices
from bepo.losses import losses


def variants():
    """Every loss with its defaults, and with each other choice of its fields."""
    for name, cls in losses().items():
        yield pytest.param(cls(), id=name)
        kinds = get_type_hints(cls)
        for field in fields(cls):
            for choice in set(choices(kinds[field.name])) - {field.default}:
                yield pytest.param(cls(**{field.name: choice}), id=f"{name} {field.name}={choice}")


every_loss = pytest.mark.parametrize("loss", list(variants()))


@pytest.fixture
def grids():
    """Log-probabilities, those at rollout time, advantages and a mask: three responses of 4, 2 and no tokens."""
    draw = torch.Generator().manual_seed(0)
    old, step, advantage = (torch.randn(3, 4, generator=draw) for _ in range(3))
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]], dtype=torch.bool)
    return old + 0.3 * step, old, advantage, mask


@every_loss
def test_every_token_has_a_loss_and_padding_has_none(loss, grids):
    logprob, old, advantage, mask = grids
    per_token, stats = loss(*grids)
    assert per_token.shape == mask.shape and per_token.dtype == torch.float32 and per_token.isfinite().all()
    assert not per_token[~mask].any() and per_token[mask].any()
    assert all(value.shape == () and value.isfinite() for value in stats.values())
    other = [torch.where(mask, x, torch.full_like(x, 9.0)) for x in (logprob, old, advantage)]
    again, same_stats = loss(*other, mask)
    torch.testing.assert_close(again, per_token, rtol=0, atol=0)
    torch.testing.assert_close(same_stats, stats, rtol=0, atol=0)


@every_loss
def test_responses_do_not_influence_each_other(loss, grids):
    per_token, stats = loss(*grids)
    parts = [loss(*(x[i : i + 1] for x in grids)) for i in range(3)]
    torch.testing.assert_close(torch.cat([part for part, _ in parts]), per_token, rtol=0, atol=0)
    for name, value in stats.items():
        assert sum(part[name] for _, part in parts).item() == pytest.approx(value.item(), rel=1e-5), name


@every_loss
def test_the_first_step_makes_good_tokens_likelier_and_bad_ones_less_likely(loss, grids):
    _, old, advantage, mask = grids
    advantage = advantage.mean(1, keepdim=True).expand(3, 4)  # one for each response
    logprob = old.clone().requires_grad_()
    loss(logprob, old, advantage, mask)[0].sum().backward()
    assert torch.equal(logprob.grad.sign()[mask], -advantage.sign()[mask]) and not logprob.grad[~mask].any()


@every_loss
def test_aggregation_by_hand_and_in_parts(loss, grids):
    """A minibatch's loss is the sum of its parts over the denominator of the whole, for any division into parts."""
    mask = grids[-1]
    per_token, _ = loss(*grids)
    whole = loss.reduce(per_token, mask) / loss.denominator(3, int(mask.sum()))
    parts = sum(loss.reduce(per_token[i : i + 1], mask[i : i + 1]) for i in range(3)) / loss.denominator(
        3, int(mask.sum())
    )
    means = [row[kept].mean().item() if kept.any() else 0.0 for row, kept in zip(per_token, mask)]
    expected = per_token.sum().item() / 6 if loss.aggregation == "token_mean" else sum(means) / 3
    assert whole.item() == pytest.approx(expected, rel=1e-6) and parts.item() == pytest.approx(expected, rel=1e-6)


def test_a_sequence_mean_does_not_weigh_a_response_by_its_length():
    """GSPO's objective: with equal advantages, a long response counts as much as a short one."""
    loss = losses()["ppo_clip"](ratio="action", aggregation="sequence_mean")
    mask = torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0]], dtype=torch.bool)
    logprob = torch.zeros(2, 4, requires_grad=True)
    per_token, _ = loss(logprob, torch.zeros(2, 4), mask.float(), mask)
    (loss.reduce(per_token, mask) / loss.denominator(2, 5)).backward()
    torch.testing.assert_close(logprob.grad.sum(1), torch.tensor([-0.5, -0.5]))


@every_loss
def test_a_loss_travels_to_other_processes(loss, grids):
    copy = pickle.loads(pickle.dumps(loss))
    assert copy == loss and torch.equal(copy(*grids)[0], loss(*grids)[0])
