"""verl's fused log-probabilities and entropies are those of all logits, as are their gradients, without the logits."""

import pytest
import torch
from verl.utils.experimental.torch_functional import FusedLinearForPPO


@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_they_are_those_of_all_logits_at_once(temperature):
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(1, 1100, 16, generator=generator, dtype=torch.float64).mul(0.3).float().requires_grad_()
    weights = torch.randn(300, 16, generator=generator).requires_grad_()
    labels = torch.randint(300, (1, 1100), generator=generator)
    scale = torch.rand(1, 1100, generator=generator)
    fused, entropy = FusedLinearForPPO()(hidden, weights, labels, temperature)
    ((fused - 0.5 * entropy) * scale).sum().backward()
    gradients = hidden.grad.clone(), weights.grad.clone()
    hidden.grad = weights.grad = None
    log_probs = (hidden @ weights.T / temperature).log_softmax(-1)
    plain, expected = log_probs.gather(-1, labels[..., None])[..., 0], -(log_probs.exp() * log_probs).sum(-1)
    ((plain - 0.5 * expected) * scale).sum().backward()
    torch.testing.assert_close((fused, entropy), (plain, expected), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(gradients, (hidden.grad, weights.grad), rtol=1e-4, atol=1e-3)


def test_nothing_of_the_size_of_the_logits_is_kept_for_the_backward_pass():
    hidden, weights = torch.randn(1, 4096, 8, requires_grad=True), torch.randn(500, 8, requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        FusedLinearForPPO()(hidden, weights, torch.zeros(1, 4096, dtype=torch.long))
    assert sum(kept) < 4096 * 500 / 10
