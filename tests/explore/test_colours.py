"""Colours: no two estimators look alike, and one of one's own looks like none of them."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest

from analysis.plots.style import method_colour
from bepo.credit import Estimator, estimators
from bepo.envs import environments
from bepo.explore.colours import colours, distance, free, oklab, page_colour

APART = 0.12
"""Least distance in OKLab; six times what is just noticeable."""


@dataclass
class Mine(Estimator):
    """An estimator without a colour of its own."""

    name: str = "mine"
    colour = ""


@pytest.mark.parametrize("known", [estimators, environments])
def test_no_two_look_alike(known):
    found = colours(known())
    near = {(a, b): distance(found[a], found[b]) for a, b in combinations(found, 2)}
    assert min(near.values()) >= APART, min(near, key=near.__getitem__)


def test_an_estimator_of_ones_own_gets_no_colour_of_a_method():
    found = colours({**estimators(), "mine": Mine, "another": Mine})
    pairs = [(mine, name) for mine in ("mine", "another") for name in found if name != mine]
    assert min(distance(found[a], found[b]) for a, b in pairs) > 0.1


def test_figures_and_pages_have_the_same_colours():
    assert {page_colour(name) for name in estimators()} == {
        method_colour(name).replace("#000000", "var(--text)") for name in estimators()
    }
    assert page_colour("unknown") == "var(--text)"


def test_oklab_is_that_of_its_author():
    np.testing.assert_allclose(oklab("#FFFFFF"), [1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(oklab("#FF0000"), [0.62796, 0.22486, 0.12585], atol=1e-4)


def test_free_colours_are_as_different_as_possible():
    many = free(30)
    assert len(set(many)) == 30 and min(distance(a, b) for a, b in combinations(many[:8], 2)) > 0.18
