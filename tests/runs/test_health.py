"""Health checks: each alarm by its metric, silence on healthy rows, and an environment where giving up pays."""

from types import SimpleNamespace

import pytest

from bepo.diagnose import main as diagnose
from bepo.explore.diagnosis import signals
from bepo.runs.health import Health, alarms
from bepo.store.run_files import read_run
from tests.command import SMALLEST, run

HEALTHY = {
    "train/success": 0.3,
    "train/return": 3.0,
    "train/valid_actions": 0.9,
    "train/entropy": 1.0,
    "train/response_length": 4.0,
    "train/tied_groups": 0.2,
    "credit/zero_advantage_transitions": 0.3,
    "train/clip_fraction": 0.05,
    "train/kl": 0.1,
}


def rows(**last):
    """Ten updates: the first half as in HEALTHY, the second with other values."""
    changed = HEALTHY | {name.replace("__", "/"): value for name, value in last.items()}
    return [{"update": n + 1, **(HEALTHY if n < 5 else changed)} for n in range(10)]


@pytest.mark.parametrize(
    "last, words",
    [
        ({"train__success": 0.2, "train__return": 4.0}, "return rose from 3 to 4"),
        ({"train__success": 0.2, "train__valid_actions": 1.0}, "share of valid actions rose from 0.9 to 1"),
        ({"train__entropy": 0.05}, "entropy collapsed from 1 to 0.05"),
        ({"train__response_length": 1.0}, "shrank from 4.0 to 1.0 tokens"),
        ({"train__tied_groups": 0.95}, "95% of the groups"),
        ({"credit__zero_advantage_transitions": 1.0}, "100% of the transitions"),
        ({"train__clip_fraction": 0.6}, "60% of the tokens"),
        ({"train__kl": 3.0}, "is 3 nats"),
    ],
)
def test_each_alarm_names_its_numbers(last, words):
    (found,) = alarms(rows(**last), Health())
    assert words in found


@pytest.mark.parametrize(
    "last",
    [
        {},
        {"train__success": 0.2, "train__return": 2.0},  # worse, and paid less: no hacking
        {"train__success": 0.27, "train__return": 4.0},  # within the threshold
        {"train__success": 0.9, "train__entropy": 0.05},  # a solved task needs no entropy
        dict.fromkeys(name.replace("/", "__") for name in HEALTHY),  # nothing logged
    ],
)
def test_healthy_rows_raise_no_alarm(last):
    assert alarms(rows(**last), Health()) == []


def test_few_updates_have_no_trend_and_thresholds_are_settings():
    assert alarms(rows(train__kl=3.0)[-9:], Health()) == []
    assert alarms(rows(train__kl=3.0), Health(kl=5.0)) == []


def test_the_table_of_a_diagnosis_and_the_alarms_compare_the_same_updates():
    logged = [{"update": n + 1, "train/kl": float(n)} for n in range(14)]
    run_of = SimpleNamespace(metrics=lambda: logged)
    assert signals(run_of).loc["KL (nats)"].tolist() == [0.5, 6.5, 12.5]
    assert alarms(logged, Health(kl=12.4)) == ["the KL divergence from the reference policy is 12.5 nats a token"]


@pytest.mark.slow
def test_where_giving_up_pays_the_run_says_so(tmp_path, capsys):
    """Trying costs 0.03 a step and succeeds in 10 %, giving up costs 0.01, and success pays nothing."""
    small = [override for override in SMALLEST if not override.startswith(("env", "rollout", "updates"))]
    settings = ["env=quitting", "tier=smoke", "credit=grpo", "updates=20", "training.learning_rate=3e-3"]
    more = ["rollout.tasks=8", "rollout.group_size=8", "evaluation.every=0", f"results={tmp_path}"]
    code, out, err = run("plugins=tests/data/plugins/quitting.py", *settings, *small, *more)
    assert code == 0, err
    assert "ALARM success fell" in out and "return rose" in out
    (folder,) = tmp_path.glob("runs/*")
    stored = read_run(folder)
    assert any("success fell" in alarm for alarm in stored.metadata["alarms"])
    last = stored.metrics()[-1]
    assert last["train/ended_failure"] + last["train/ended_truncated"] + last["train/success"] == pytest.approx(1)
    capsys.readouterr()
    assert diagnose([stored.id, "--results", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "ALARM success fell" in shown and "ended in failure" in shown and "Terms of the advantage" in shown
