"""What the runs say about a claim, as a sentence with units."""

import numpy as np
import pytest

from analysis.claims.claims import read
from analysis.claims.formula import Inequality
from analysis.claims.inference import SeedValues, significance
from analysis.claims.sentences import reported, sentence, unit_of
from analysis.claims.verdicts import deciding

CLAIMS = {claim.id: claim for claim in read()}


def said(name: str, **values: tuple[float, ...]) -> str:
    claim = CLAIMS[name]
    found = {
        entry: SeedValues(
            claim.entries[entry], tuple(range(len(own))), np.array(own), tuple(f"{entry}{i}" for i in own)
        )
        for entry, own in values.items()
    }
    tested = significance(claim.formula, found)
    return sentence(claim, deciding(tested), {entry: float(one.values.mean()) for entry, one in found.items()})


def test_a_ratio_says_how_many_times_as_long():
    text = said("advantage-stage-share", others=(76.8, 76.9, 77.0), stage=(0.1, 0.1, 0.1))
    assert text == "other stages take 769 times as long as advantage stage (claimed: more than 99 times)"


def test_a_difference_of_success_is_in_points_beside_both_methods():
    text = said("webshop-over-hgpo-1.5b", ours=(80.0, 82.0), theirs=(70.0, 71.0))
    assert text.startswith("Gated-BEPO: 81.0 %; HGPO: 70.5 %; difference +10.5 points [")


def test_a_bound_is_named_with_its_unit():
    text = said("generation-and-optimisation-dominate", share=(99.0, 99.2))
    assert text.startswith("rollout and update on ALFWorld: 99.1 % [") and text.endswith("(claimed: above 50 %)")
    below = said("ten-iterations-are-close", tenth=(0.06, 0.08))
    assert "0.07 [" in below and below.endswith("(claimed: below 0.01)")


@pytest.mark.parametrize(
    ("name", "printed", "words"),
    [
        ("advantage-stage-share", {"others": 225.3, "stage": 0.361}, "624 times"),
        ("webshop-over-hgpo-1.5b", {"ours": 74.0, "theirs": 70.5}, "+3.5 points"),
        ("ten-iterations-are-close", {"tenth": 0.00986}, "0.00986"),
    ],
)
def test_reported_numbers_have_the_units_of_the_runs(name, printed, words):
    claim = CLAIMS[name]
    assert isinstance(inequality := claim.formula, Inequality)
    assert reported(claim, inequality, printed) == words


def test_settings_keep_their_names():
    text = said("repeats-are-no-evidence", **{name: (30.0, 31.0) for name in CLAIMS["repeats-are-no-evidence"].names})
    assert "n_min=2, b_min=1" in text


@pytest.mark.parametrize(
    ("key", "unit"),
    [
        (("main-results", "grpo", "1.5B", "webshop/success"), "%"),
        (("text", "advantage_stage", "alfworld", "seconds"), "s"),
        (("text", "entropy, first tenth", "alfworld", "diagnostics"), "nats"),
        (("text", "states per group, first tenth", "alfworld", "diagnostics"), ""),
        (("maxiter-ablation", "iterations=1", "", "delta_advantage"), ""),
    ],
)
def test_units(key, unit):
    assert unit_of(key) == unit
