"""The contract of all losses. A new file in bepo/losses is tested without a change here."""

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
    expected = per_token.sum().item() / 6 if loss.aggregation == "token_mean" else sum(means) / 3
    assert (loss.reduce(per_token, mask) / loss.denominator(3, 6)).item() == pytest.approx(expected, rel=1e-6)


def test_a_sequence_mean_does_not_weigh_a_response_by_its_length():
    """GSPO's objective: with equal advantages, a long response counts as much as a short one."""
    loss = losses()["ppo_clip"](ratio="action", aggregation="sequence_mean")
    mask = torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0]], dtype=torch.bool)
    logprob = torch.zeros(2, 4, requires_grad=True)
    per_token, _ = loss(logprob, torch.zeros(2, 4), mask.float(), mask)
    (loss.reduce(per_token, mask) / loss.denominator(2, 5)).backward()
    torch.testing.assert_close(logprob.grad.sum(1), torch.tensor([-0.5, -0.5]))
