"""The contract of all losses. A new file in bepo/losses is tested without a change here."""

from dataclasses import replace

import pytest
import torch

from bepo.losses import losses
from bepo.testing import contract
from bepo.testing.loss import grids, variants

every_loss = pytest.mark.parametrize("loss", [one for cls in losses().values() for one in variants(cls)], ids=repr)


@every_loss
@pytest.mark.parametrize("check", contract("loss"))
def test_contract(check, loss):
    check(loss)


@every_loss
def test_aggregation_by_hand(loss):
    *_, mask = tensors = grids()
    per_token, _ = loss(*tensors)
    means = [row[kept].mean().item() if kept.any() else 0.0 for row, kept in zip(per_token, mask)]
    total = per_token.sum().item()
    expected = {
        "token_mean": total / 6,
        "sequence_mean": sum(means) / 3,
        "constant_length": total / (3 * loss.length),
    }[loss.aggregation]
    assert (loss.reduce(per_token, mask) / loss.denominator(3, 6)).item() == pytest.approx(expected, rel=1e-6)


@every_loss
def test_responses_of_equal_length_have_equal_weights(loss):
    """Then the mean over responses of means over tokens is the mean over tokens."""
    draw = torch.Generator().manual_seed(1)
    logprob, old, advantage = (torch.randn(3, 4, generator=draw) for _ in range(3))
    mask = torch.ones(3, 4, dtype=torch.bool)
    per_token, _ = loss(logprob, old, advantage, mask)
    means = [
        one.reduce(per_token, mask) / one.denominator(3, 12)
        for one in (replace(loss, aggregation=name) for name in ("token_mean", "sequence_mean"))
    ]
    torch.testing.assert_close(*means)


def test_a_sequence_mean_does_not_weigh_a_response_by_its_length():
    """GSPO's objective: with equal advantages, a long response counts as much as a short one."""
    loss = losses()["ppo_clip"](ratio="action", aggregation="sequence_mean")
    mask = torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0]], dtype=torch.bool)
    logprob = torch.zeros(2, 4, requires_grad=True)
    per_token, _ = loss(logprob, torch.zeros(2, 4), mask.float(), mask)
    (loss.reduce(per_token, mask) / loss.denominator(2, 5)).backward()
    torch.testing.assert_close(logprob.grad.sum(1), torch.tensor([-0.5, -0.5]))
