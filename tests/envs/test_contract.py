"""The contract of all environments. A new file or folder in bepo/envs is tested without a change here."""

from functools import cache

import pytest

from bepo.envs import Environment, environments
from bepo.envs.sokoban import Sokoban
from bepo.testing import contract
from bepo.testing.env import (
    check_its_vocabulary_suffices_for_a_word_level_tokenizer,
    check_observations_and_steps_have_their_types,
)

QUICK = {  # settings that make a test short, and an expert's success certain
    "webshop": {"products": 150},
    "alfworld": {"max_receptacles": 8},
    "gymnasium": {"kwargs": {"map_name": None, "is_slippery": False}, "starts": "distinct"},
}
ELSEWHERE = {
    "openenv": "tests/envs/test_openenv.py starts its server",
    "verifiers": "tests/envs/test_verifiers.py has an environment for it",
}
COMPACT = {"webshop": {"rendering": "compact", "suggestions": 3}}  # the settings of tiny models


@cache
def made(name: str, **more: object) -> Environment:
    if name in ELSEWHERE:
        pytest.skip(ELSEWHERE[name])
    env = environments()[name](**(QUICK.get(name, {}) | more))
    missing = env.missing()
    if missing is not None:
        pytest.skip(f"{name}: {missing}")
    return env


@pytest.mark.parametrize("name", sorted(environments()))
@pytest.mark.parametrize("check", contract("env"))
def test_contract(check, name):
    compact = COMPACT.get(name, {}) if check is check_its_vocabulary_suffices_for_a_word_level_tokenizer else {}
    check(made(name, **compact))


def test_a_listed_action_that_runs_another_one_breaks_the_contract():
    class Confused(Sokoban):
        def parse_action(self, text):
            return {"up": "down"}.get(text, super().parse_action(text))

    with pytest.raises(AssertionError, match="the listed action 'up' runs 'down'"):
        check_observations_and_steps_have_their_types(Confused())
