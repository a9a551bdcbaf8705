"""ALFWorld's compact rendering for tiny models."""

import numpy as np
import pytest

from bepo.envs.alfworld import ALFWorld
from bepo.envs.alfworld.compact import shorten
from bepo.policies.lm.tiny_model import build_tokenizer
from bepo.rollouts.task_sets import task_set


@pytest.mark.parametrize(
    "feedback, expected",
    [
        ("On the bed 1, you see a pen 2, a cup 1, and a pen 1.", "On the bed 1, you see a pen 2, a pen 1."),
        ("On the bed 1, you see a cup 1, and a bowl 2.", "On the bed 1, you see other things."),
        ("On the bed 1, you see nothing.", "On the bed 1, you see nothing."),
        ("You pick up the cup 1 from the bed 1.", "You pick up the cup 1 from the bed 1."),
        ("It is open. In it, you see an pen 1.", "It is open. In it, you see an pen 1."),
    ],
)
def test_objects_that_the_task_does_not_name_are_left_out(feedback, expected):
    assert shorten(feedback, "put two pen in drawer") == expected


def test_only_the_text_of_observations_changes():
    """Commands, rewards and state keys are the same, and every word is in the vocabulary."""
    envs = [ALFWorld(max_receptacles=8, rendering=r) for r in ("full", "compact")]
    tasks = task_set(envs[0], "train", 12).tasks
    full, compact = (env.start(tasks) for env in envs)
    rng, tokenizer, shorter = np.random.default_rng(0), build_tokenizer(envs[1].prompt.vocabulary), 0
    for _ in range(15):
        pairs = list(zip(full.observations, compact.observations))
        for whole, short in pairs:
            assert (whole.key, whole.admissible) == (short.key, short.admissible)
            assert whole.key == whole.text
            assert tokenizer.unk_token_id not in tokenizer.encode(short.text)
            shorter += len(short.text) < len(whole.text)
        actions = {i: pairs[i][0].admissible[rng.integers(len(pairs[i][0].admissible))] for i in range(len(tasks))}
        replies = full.step(actions), compact.step(actions)
        assert all(replies[0][i].reward == replies[1][i].reward for i in actions)
    assert shorter > len(tasks)  # more than the first observations
