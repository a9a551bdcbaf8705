"""A visual run through the real command: the smoke tier, and resume with a critic."""

import json
import signal

import pytest

from bepo.store.run_files import STREAMS, read_run
from tests.command import rows, run, start, stop_after, train

pytestmark = pytest.mark.slow  # these train


@pytest.mark.long
def test_the_smoke_tier(tmp_path):
    code, _, err = run("model=vl", f"results={tmp_path}", "tracking.mode=disabled", "save_rollouts=4")
    assert code == 0, err
    (path,) = tmp_path.glob("runs/*")
    stored = read_run(path)
    assert stored.config["env"]["observation"] == "rgb" and stored.config["model"] == "vl"
    assert max(r["train/first_ratio_error"] for r in stored.metrics()) < 1e-5
    (curve,) = tmp_path.glob("warm_starts/*/warm_start.json")
    assert json.loads(curve.read_text(encoding="utf-8"))["policy"]["name"] == "tiny_vl"


@pytest.mark.long
def test_a_killed_run_with_a_critic_ends_with_the_same_rows(tmp_path):
    settings = ("model=vl", "policy.vision_hidden_size=32", "credit=ppo", "updates=5", "checkpoint_every=2")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert train(whole, *settings)[0] == 0
    process = start(parts, *settings)
    stop_after(process, parts, 3, signal.SIGKILL)
    process.communicate()
    assert train(parts, *settings)[0] == 0
    for stream in STREAMS:
        assert rows(parts, stream) == rows(whole, stream)
    assert all(r["train/value_loss"] > 0 for r in rows(whole, "metrics"))
