"""The contract of all losses. Each check takes a loss with its settings.

Shapes: three responses of 4, 2 and no tokens, padded to 4.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_type_hints

import torch
from torch.overrides import TorchFunctionMode

from bepo.core.registry import choices
from bepo.losses import Loss


def variants(cls: type[Loss]) -> list[Loss]:
    """Return a loss with its defaults, with a mask of responses, then with each other choice of each field."""
    kinds = get_type_hints(cls)
    others = [(f.name, choice) for f in fields(cls) for choice in choices(kinds[f.name]) if choice != f.default]
    return [cls(), cls(sequence_mask=0.1), *(cls(**{name: choice}) for name, choice in others)]


def grids() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return log-probabilities, those at rollout time, advantages and a mask."""
    draw = torch.Generator().manual_seed(0)
    old, step, advantage = (torch.randn(3, 4, generator=draw) for _ in range(3))
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]], dtype=torch.bool)
    return old + 0.3 * step, old, advantage, mask


def _same(actual: object, expected: object) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def check_every_token_has_a_loss_and_padding_has_none(loss: Loss) -> None:
    """The loss is finite, 0 for padding, and does not depend on what padding holds."""
    logprob, old, advantage, mask = grids()
    per_token, stats = loss(logprob, old, advantage, mask)
    assert per_token.shape == mask.shape and per_token.dtype == torch.float32 and per_token.isfinite().all()
    assert not per_token[~mask].any() and per_token[mask].any()
    assert all(value.shape == () and value.isfinite() for value in stats.values())
    other = [torch.where(mask, x, torch.full_like(x, 9.0)) for x in (logprob, old, advantage)]
    again, same_stats = loss(other[0], other[1], other[2], mask)
    _same(again, per_token)
    _same(same_stats, stats)


def check_responses_do_not_influence_each_other(loss: Loss) -> None:
    """A response alone has the loss that it has in a batch; statistics are sums over responses."""
    tensors = grids()
    per_token, stats = loss(*tensors)
    parts = [loss(*(x[i : i + 1] for x in tensors)) for i in range(3)]
    _same(torch.cat([part for part, _ in parts]), per_token)
    for name, value in stats.items():
        total = sum(part[name].item() for _, part in parts)
        assert abs(total - value.item()) <= 1e-5 * abs(value.item()), name


def check_a_first_step_follows_the_advantages(loss: Loss) -> None:
    """A first step makes tokens with a positive advantage likelier, and those with a negative one less likely."""
    _, old, advantage, mask = grids()
    advantage = advantage.mean(1, keepdim=True).expand(3, 4)  # one for each response
    logprob = old.clone().requires_grad_()
    loss(logprob, old, advantage, mask)[0].sum().backward()
    assert logprob.grad is not None
    assert torch.equal(logprob.grad.sign()[mask], -advantage.sign()[mask]) and not logprob.grad[~mask].any()


def _aggregated(loss: Loss, per_token: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return loss.reduce(per_token, mask) / loss.denominator(len(mask), int(mask.sum()))


def check_at_the_old_policy_the_gradient_is_the_policy_gradient(loss: Loss) -> None:
    """It is the gradient of -A logprob under the same aggregation, where a response has one advantage.

    A loss with one ratio for each response (GMPO, ``ppo_clip`` with ``ratio=action``) has another gradient where the
    tokens of a response have different advantages.
    """
    _, old, advantage, mask = grids()
    advantage = advantage.mean(1, keepdim=True).expand(3, 4)
    logprob, plain = (old.clone().requires_grad_() for _ in range(2))
    _aggregated(loss, loss(logprob, old, advantage, mask)[0], mask).backward()
    _aggregated(loss, -advantage * plain * mask, mask).backward()
    torch.testing.assert_close(logprob.grad, plain.grad, rtol=1e-5, atol=1e-7)


class _Frozen(TorchFunctionMode):
    """Record what ``detach`` returns, or return what an earlier call recorded.

    The gradient of a loss with detached parts is that of the same function with these parts kept constant.
    """

    def __init__(self, recorded: list[torch.Tensor] | None = None) -> None:
        super().__init__()
        self.recorded: list[torch.Tensor] = []
        self._replayed = None if recorded is None else iter(recorded)

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is not torch.Tensor.detach:
            return result
        if self._replayed is not None:
            return next(self._replayed)
        self.recorded.append(result)
        return result


def check_the_gradient_is_the_finite_difference(loss: Loss) -> None:
    """Also far from the old policy, and where the tokens of a response have different advantages."""
    step, old, advantage, mask = (x.double() if x.is_floating_point() else x for x in grids())
    old = old.clamp(max=-0.05)
    for distance in (0.05, 1.0, 5.0):
        logprob = (old + distance * (step - old)).clamp(max=-0.06).requires_grad_()
        with _Frozen() as first:
            _aggregated(loss, loss(logprob, old, advantage, mask)[0], mask).backward()
        assert logprob.grad is not None and not logprob.grad[~mask].any()
        for row, token in mask.nonzero().tolist():
            values = []
            for nudge in (1e-6, -1e-6):
                moved = logprob.detach().clone()
                moved[row, token] += nudge
                with _Frozen(first.recorded):
                    values.append(_aggregated(loss, loss(moved, old, advantage, mask)[0], mask).item())
            slope, gradient = (values[0] - values[1]) / 2e-6, logprob.grad[row, token].item()
            assert abs(gradient - slope) <= 1e-5 * abs(slope) + 1e-8, (distance, row, token, gradient, slope)


def check_parts_add_up_to_a_minibatch(loss: Loss) -> None:
    """A minibatch's loss is the sum of its parts over the denominator of the whole, for any division into parts."""
    tensors = grids()
    mask = tensors[-1]
    per_token, _ = loss(*tensors)
    whole = loss.reduce(per_token, mask)
    parts = torch.stack([loss.reduce(per_token[i : i + 1], mask[i : i + 1]) for i in range(3)]).sum()
    torch.testing.assert_close(parts, whole, rtol=1e-6, atol=1e-6)
    assert loss.denominator(3, int(mask.sum())) > 0


def check_it_travels_to_other_processes(loss: Loss) -> None:
    """It is the same after pickling."""
    assert pickle.loads(pickle.dumps(loss)) == loss
