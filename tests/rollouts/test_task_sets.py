import json
import shutil

import pytest

from bepo.core.errors import UserError
from bepo.envs.sokoban import Sokoban
from bepo.rollouts.task_sets import task_set
from bepo.store.json_files import read_sealed, write_sealed


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
    stored = json.loads(path.read_text(encoding="utf-8"))
    alter(stored)
    path.write_text(json.dumps(stored), encoding="utf-8")
    with pytest.raises(UserError, match=path.name):
        task_set(Sokoban(), "test", 5, tmp_path)


def test_a_task_set_under_the_name_of_another_is_refused(tmp_path):
    task_set(Sokoban(horizon=8), "test", 5, tmp_path)
    (other,) = tmp_path.iterdir()
    task_set(Sokoban(horizon=9), "test", 5, tmp_path)
    (path,) = set(tmp_path.iterdir()) - {other}
    shutil.copy(other, path)
    with pytest.raises(UserError, match=rf"{path.name}: made for other settings \(env.horizon is 8, not 9\); remove"):
        task_set(Sokoban(horizon=9), "test", 5, tmp_path)


def test_a_task_set_of_before_that_does_not_say_its_settings_is_read(tmp_path):
    made = task_set(Sokoban(), "test", 5, tmp_path)
    (path,) = tmp_path.iterdir()
    content = read_sealed(path, "task set")
    del content["env"]
    write_sealed(path, content)
    assert task_set(Sokoban(), "test", 5, tmp_path) == made


def test_a_task_set_larger_than_its_split():
    class Three:
        name = "three"

        def tasks(self, split):
            return iter([])

    with pytest.raises(UserError, match="env=three has 0 train tasks, but 4"):
        task_set(Three(), "train", 4)
