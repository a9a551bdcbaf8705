import json

import pytest

from bepo.core.errors import UserError
from bepo.envs.sokoban import Sokoban
from bepo.rollouts.task_sets import task_set


def test_prefix_digest_and_cache(tmp_path):
    env = Sokoban()
    small, large = task_set(env, "test", 5), task_set(env, "test", 9)
    assert large.tasks[:5] == small.tasks and large.digest != small.digest
    assert task_set(env, "test", 5, tmp_path) == small == task_set(env, "test", 5, tmp_path)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    "alter",
    [
        lambda s: s["tasks"].pop(),
        lambda s: s["tasks"].reverse(),
        lambda s: s["tasks"][0]["data"].update(board="another"),
        lambda s: s.update(split="train"),
        lambda s: s.pop("digest"),
    ],
)
def test_an_altered_task_set_is_refused(tmp_path, alter):
    task_set(Sokoban(), "test", 5, tmp_path)
    (path,) = tmp_path.iterdir()
    stored = json.loads(path.read_text())
    alter(stored)
    path.write_text(json.dumps(stored))
    with pytest.raises(UserError, match=path.name):
        task_set(Sokoban(), "test", 5, tmp_path)


def test_a_task_set_larger_than_its_split():
    class Three:
        name = "three"

        def tasks(self, split):
            return iter([])

    with pytest.raises(UserError, match="three has 0 train tasks, not the 4"):
        task_set(Three(), "train", 4)
