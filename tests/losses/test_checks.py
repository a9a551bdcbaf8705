"""What a loss does to its arguments, and what it returns, is checked before it counts."""

import pytest
import torch

from bepo.core.errors import UserError
from bepo.losses.ppo_clip import PPOClip
from bepo.testing.loss import grids


def of(function):
    """Return a loss that calls a function with the arguments."""

    class Odd(PPOClip):
        def token_loss(self, logprob, old_logprob, advantage, mask):
            return function(logprob, old_logprob, advantage, mask)

    return Odd()


def test_a_loss_cannot_change_what_follows_it():
    def change(logprob, old_logprob, advantage, mask):
        found = PPOClip().token_loss(logprob, old_logprob, advantage, mask)
        with torch.no_grad():
            for one in (logprob, old_logprob, advantage):
                one.fill_(9)
            mask.fill_(False)
        return found

    arguments = grids()
    before = [one.clone() for one in arguments]
    loss, _ = of(change)(*arguments)
    assert all(torch.equal(one, other) for one, other in zip(arguments, before))
    assert torch.equal(loss, PPOClip()(*arguments)[0])


@pytest.mark.parametrize(
    "result, problem",
    [
        (
            lambda mask: (torch.zeros(2), {}),
            r"the losses of tokens are a torch.float32 tensor of shape \(2,\), must be",
        ),
        (lambda mask: (mask, {}), "the losses of tokens are a torch.bool tensor"),
        (lambda mask: (mask * 1j, {}), "the losses of tokens are a torch.complex64 tensor"),
        (lambda mask: (0.5, {}), "the losses of tokens are float, must be a tensor of real numbers"),
        (
            lambda mask: (mask * 1.0, {"entropy": mask.sum()}),
            "its 'entropy' has the name of a number of bepo; rename it",
        ),
        (lambda mask: (mask * 1.0, {"tokens": mask.sum()}), "its 'tokens' has the name of a number of bepo"),
        (lambda mask: (mask * 1.0, {"own": mask}), "the statistic 'own' is .* must be a tensor of one number"),
        (lambda mask: (mask * 1.0, {"own": 0.5}), "the statistic 'own' is 0.5, must be a tensor of one number"),
    ],
)
def test_odd_results_are_refused(result, problem):
    with pytest.raises(UserError, match=f"loss=ppo_clip: {problem}"):
        of(lambda logprob, old, advantage, mask: result(mask))(*grids())
