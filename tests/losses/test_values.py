"""Each loss against its formula, token by token in plain Python, and identities between losses."""

import math
from dataclasses import replace

import pytest
import torch

from bepo.losses import Loss
from bepo.losses.cispo import CISPO
from bepo.losses.dapo import DAPO
from bepo.losses.dppo import DPPO
from bepo.losses.dr_grpo import DrGRPO
from bepo.losses.gmpo import GMPO
from bepo.losses.gspo import GSPO
from bepo.losses.ppo_clip import PPOClip
from bepo.losses.sapo import SAPO


def clip(x: float, low: float, high: float) -> float:
    return min(max(x, low), high)


# (loss, advantage A, the token's old and new log-probability, log ratios of the response) -> the token's loss
def of_ppo_clip(loss, a, old, new, log_ratios):
    r = math.exp(new - old)
    worse = max(-a * r, -a * clip(r, 0.8, 1.2))
    return min(worse, -3 * a) if a < 0 else worse


def of_dapo(loss, a, old, new, log_ratios):
    r = math.exp(new - old)
    return max(-a * r, -a * clip(r, 0.8, 1.28))


def of_dr_grpo(loss, a, old, new, log_ratios):
    r = math.exp(new - old)
    return max(-a * r, -a * clip(r, 0.8, 1.2))


def of_gspo(loss, a, old, new, log_ratios):
    s = math.exp(sum(log_ratios) / len(log_ratios))
    return max(-a * s, -a * clip(s, 1 - loss.clip_low, 1 + loss.clip_high))


def of_cispo(loss, a, old, new, log_ratios):
    return -a * clip(math.exp(new - old), 1 - loss.clip_low, 1.2) * new


def of_sapo(loss, a, old, new, log_ratios):
    tau = 1.0 if a > 0 else 1.05
    return -a * 4 / tau / (1 + math.exp(-tau * (math.exp(new - old) - 1)))


def of_gmpo(loss, a, old, new, log_ratios):
    """With one advantage for the whole response."""
    bounded = [min(x, 0.4) if a > 0 else max(x, -0.4) for x in log_ratios]
    return -a * math.exp(sum(bounded) / len(bounded))


def of_dppo(loss, a, old, new, log_ratios):
    change = math.exp(new) - math.exp(old)
    allowed = change <= 0.2 if a > 0 else change >= -0.2
    return -a * min(math.exp(new - old), 20) * new if allowed else 0.0


FORMULAS = [
    (PPOClip(), of_ppo_clip),
    (DAPO(), of_dapo),
    (DrGRPO(), of_dr_grpo),
    (GSPO(clip_low=0.1, clip_high=0.2), of_gspo),
    (CISPO(), of_cispo),
    (CISPO(clip_low=0.3), of_cispo),
    (SAPO(), of_sapo),
    (GMPO(), of_gmpo),
    (DPPO(), of_dppo),
]


def responses(seed: int, spread: float) -> tuple[torch.Tensor, ...]:
    """Return new and old log-probabilities, one advantage a response, and the mask of 40 responses of 1 to 6 tokens."""
    draw = torch.Generator().manual_seed(seed)
    length = torch.randint(1, 7, (40, 1), generator=draw)
    mask = torch.arange(6) < length
    old = -0.02 - 2 * torch.rand(40, 6, generator=draw)
    new = (old + spread * torch.randn(40, 6, generator=draw)).clamp(max=-0.01)
    return new, old, torch.randn(40, 1, generator=draw).expand(40, 6), mask


@pytest.mark.parametrize("spread", [0.05, 0.5, 4.0])
@pytest.mark.parametrize("loss, formula", FORMULAS, ids=lambda x: x.name if isinstance(x, Loss) else None)
def test_every_token_has_the_loss_of_the_formula(loss, formula, spread):
    new, old, advantage, mask = responses(0, spread)
    found, stats = loss(new, old, advantage, mask)
    for i in range(40):
        n = int(mask[i].sum())
        log_ratios = (new[i, :n] - old[i, :n]).tolist()
        expected = [
            formula(loss, advantage[i, 0].item(), old[i, t].item(), new[i, t].item(), log_ratios) for t in range(n)
        ]
        assert found[i, :n].tolist() == pytest.approx(expected, rel=1e-4, abs=1e-5)
    if spread == 4 and "clip_fraction" in stats:
        assert 0 < stats["clip_fraction"] < mask.sum()


def gradient(loss: Loss, new, old, advantage, mask) -> torch.Tensor:
    new = new.clone().requires_grad_()
    loss.reduce(loss(new, old, advantage, mask)[0], mask).backward()
    return new.grad


@pytest.mark.parametrize("spread", [0.05, 0.5])
def test_gspo_with_one_advantage_a_response_clips_responses(spread):
    """It has the loss and the gradient of the clip of a response's ratio, max(-A s, -A clip(s)) (Eq. 5)."""
    data = responses(1, spread)
    token_wise = GSPO(clip_low=0.2, clip_high=0.2)
    row_wise = PPOClip(ratio="action", clip_eps=0.2, dual_clip=None, aggregation="sequence_mean")
    torch.testing.assert_close(token_wise(*data)[0], row_wise(*data)[0])
    torch.testing.assert_close(gradient(token_wise, *data), gradient(row_wise, *data))
    new, old, advantage, mask = data
    s = (((new - old) * mask).sum(1) / mask.sum(1)).exp()
    by_row = torch.maximum(-advantage[:, 0] * s, -advantage[:, 0] * s.clamp(0.8, 1.2))
    torch.testing.assert_close(token_wise.reduce(token_wise(*data)[0], mask), by_row.sum())


def test_sapo_without_temperature_is_linear_in_the_ratio():
    """With tau -> 0, -A 4 / tau sigmoid(tau (r - 1)) + 2 A / tau -> -A (r - 1); float64, as 2 / tau is large."""
    *data, mask = responses(2, 0.5)
    new, old, advantage = (x.double() for x in data)
    tau = 1e-5
    found, _ = SAPO(tau_positive=tau, tau_negative=tau)(new, old, advantage, mask)
    linear = -advantage * ((new - old).exp() - 1) * mask
    torch.testing.assert_close(found + 2 / tau * advantage * mask, linear, rtol=0, atol=1e-3)


def test_a_wide_clip_is_no_clip():
    """Where nothing is clipped, PPO, DAPO, Dr. GRPO and the tokens of GMPO's mean agree with importance sampling."""
    new, old, advantage, mask = responses(3, 0.05)
    plain = -advantage * (new - old).exp() * mask
    for loss in (PPOClip(clip_eps=0.9), DAPO(clip_low=0.9, clip_high=0.9), DrGRPO(clip_eps=0.9)):
        torch.testing.assert_close(loss(new, old, advantage, mask)[0], plain)
    geometric, _ = GMPO(clip_low=0.9, clip_high=0.9)(new, old, advantage, mask)
    whole, _ = GSPO(clip_low=0.9, clip_high=0.9)(new, old, advantage, mask)
    torch.testing.assert_close(geometric, whole)


def test_cispo_keeps_the_gradient_of_a_clipped_token():
    new, old = torch.tensor([[-0.5]]), torch.tensor([[-2.0]])
    one, mask = torch.ones(1, 1), torch.ones(1, 1, dtype=torch.bool)
    assert gradient(PPOClip(), new, old, one, mask).item() == 0
    assert gradient(CISPO(), new, old, one, mask).item() == pytest.approx(-1.2)
    assert gradient(DPPO(), new, old, one, mask).item() == 0  # the probability rose by .47
    assert gradient(DPPO(clip_high=0.5), new, old, one, mask).item() == pytest.approx(-math.exp(1.5))


def test_dr_grpo_divides_by_responses_and_a_constant_length():
    """Two responses, of 3 and 1 tokens, and a length of 10: every token's weight is 1 / (2 x 10)."""
    mask = torch.tensor([[1, 1, 1], [1, 0, 0]], dtype=torch.bool)
    loss = DrGRPO(length=10)
    assert loss.denominator(2, 4) == 20
    found = gradient(loss, torch.zeros(2, 3), torch.zeros(2, 3), torch.ones(2, 3), mask) / 20
    torch.testing.assert_close(found, -mask.float() / 20)


def test_the_sequence_mask_drops_unlikely_responses_with_a_negative_advantage():
    """Ratios (geometric means) 0.5, 0.95 and 0.5; the mask at 0.1 drops what is below 0.9 and has A < 0."""
    log_ratio = torch.tensor([[0.25, 1.0], [0.95, 0.95], [0.5, 0.5]]).log()
    advantage = torch.tensor([[-1.0], [-1.0], [1.0]]).expand(3, 2)
    mask = torch.ones(3, 2, dtype=torch.bool)
    for loss in (CISPO(), SAPO(), PPOClip()):
        plain, _ = loss(log_ratio - 3, torch.full((3, 2), -3.0), advantage, mask)
        masked, stats = replace(loss, sequence_mask=0.1)(log_ratio - 3, torch.full((3, 2), -3.0), advantage, mask)
        torch.testing.assert_close(masked[1:], plain[1:])
        assert not masked[0].any() and plain[0].all() and stats["masked_fraction"] == 2
