"""Draws by the distribution function, and responses that add tokens without an alternative."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from bepo.policies.lm.logit_mask import token_trie
from bepo.policies.lm.responses import Response, draw

END, OTHER_END = 9, 8


def test_a_token_is_where_the_distribution_function_exceeds_the_number():
    logits = torch.tensor([0.0, 0.25, 0.5, 0.25, 0.0]).log().expand(6, -1)
    token, logprob, entropy, energy = draw(
        logits, torch.tensor([0.0, 0.2499, 0.25, 0.7499, 0.75, 1 - 2**-53], dtype=torch.float64)
    )
    assert token.tolist() == [1, 1, 2, 2, 3, 3]
    np.testing.assert_allclose(logprob.exp(), [0.25, 0.25, 0.5, 0.5, 0.25, 0.25], rtol=1e-6)
    np.testing.assert_allclose(entropy, 1.5 * np.log(2), rtol=1e-6)
    np.testing.assert_allclose(energy, 1 - 2 * logprob.exp() + 0.375, rtol=1e-6)


@given(st.lists(st.floats(-30, 30), min_size=1, max_size=6), st.floats(0, 1, exclude_max=True))
def test_what_is_forbidden_is_never_drawn(allowed, number):
    logits = torch.full((1, 2 * len(allowed) + 1), -torch.inf)
    logits[0, 1::2] = torch.tensor(allowed)
    token, logprob, entropy, energy = draw(logits, torch.tensor([number], dtype=torch.float64))
    assert token.item() % 2 == 1 and torch.isfinite(logprob).all()
    assert -1e-6 <= energy.item() <= 2
    assert 0 <= entropy.item() <= np.log(len(allowed)) + 1e-6


def test_only_choices_are_asked_for():
    response = Response(token_trie([(1, 2, 3, END), (1, 2, 4, 5, END)]), [END], max_length=9)
    assert response.ids == [1, 2] and response.choices == [3, 4] and response.is_open
    response.write(4, -0.7, 0.6, 0.3)
    assert response.ids == [1, 2, 4, 5, END] and not response.is_open
    assert response.logprobs == [0.0, 0.0, -0.7, 0.0, 0.0]
    assert response.entropies == [0.0, 0.0, 0.6, 0.0, 0.0] and response.energies == [0.0, 0.0, 0.3, 0.0, 0.0]
    assert response.allowed == [[1], [2], [3, 4], [5], [END]]


def test_a_response_is_cut_at_its_limit_and_ends_at_its_end():
    cut = Response(token_trie([(1, 2, 3, END)]), [END], max_length=2)
    assert cut.ids == [1, 2] and not cut.is_open
    free = Response(None, [END, OTHER_END], max_length=3)
    free.write(4, -1.0, 0.5, 0.2)
    assert free.is_open and free.allowed == []
    free.write(END, -1.0, 0.5, 0.2)
    assert free.ids == [4, END] and not free.is_open
    other = Response(None, [END, OTHER_END], max_length=3)
    other.write(OTHER_END, -1.0, 0.5, 0.2)
    assert other.ids == [OTHER_END] and not other.is_open
