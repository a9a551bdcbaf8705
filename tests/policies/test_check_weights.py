"""Weights that are nowhere are refused before a task set is made."""

import pytest

from bepo.core.errors import UserError
from bepo.core.places import CONF
from bepo.policies import policies, pretrained
from bepo.runs import train
from bepo.runs.compose import register, to_config
from bepo.sweep.composition import compose_with_hydra


@pytest.mark.parametrize("name", ["pretrained", "pretrained_vl"])
def test_missing_weights_come_before_task_sets(name, tmp_path, monkeypatch):
    def refuse(path):
        raise UserError(f"policy.path={path!r}: not available")

    monkeypatch.setattr(pretrained, "_ask_hub", refuse)
    monkeypatch.setattr(train, "task_sets_of", lambda config: pytest.fail("task sets were made"))
    register([])
    words = ["env=sokoban", f"policy={name}", "tier=smoke", "policy.path=nobody/nothing", f"results={tmp_path}"]
    config = to_config(compose_with_hydra(CONF, "train", [*words, "backend=local"]))
    with pytest.raises(UserError, match="nobody/nothing"):
        train.train(config)
    assert not (tmp_path / "task_sets").exists()


def test_policies_without_weights_need_none():
    policies()["tiny"]().check_weights()
