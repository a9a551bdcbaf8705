"""Evaluations without training, through the real command."""

import json
import shutil

import pytest

from bepo.store.run_files import read_run
from bepo.store.runs import RunFolder
from tests.command import SMALLEST, Command, train

pytestmark = pytest.mark.slow  # these train

UPDATES = 2


def evaluate(results, *overrides):
    command = Command("bepo.evaluate", f"results={results}", "tracking.mode=disabled", *overrides)
    out, err = command.communicate()
    return command.returncode, out, err


def only(results, updates):
    """The runs of a results folder with so many updates: the only one."""
    (found,) = [run for run in map(read_run, results.glob("runs/*")) if run.metadata["result"]["updates"] == updates]
    return found


def passes(run, update):
    """The test episodes of a policy, in an order of their own, without the update."""
    rows = [row for row in run.episodes() if (row["split"], row["update"]) == ("test", update)]
    return [{k: v for k, v in row.items() if k != "update"} for row in rows]


def by_pass(rows):
    return sorted(rows, key=lambda row: row["evaluation_seed"])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    results = tmp_path_factory.mktemp("trained")
    code, _, err = train(results, f"updates={UPDATES}", "training.learning_rate=0.03")
    assert code == 0, err
    return results


def test_an_evaluation_of_the_untrained_policy_is_that_of_update_0(trained, tmp_path):
    settings = [text for text in SMALLEST if not text.startswith(("updates", "rollout"))]
    code, out, err = evaluate(tmp_path, *settings)
    assert code == 0, err
    found, reference = only(tmp_path, 0), only(trained, UPDATES)
    assert found.id in out and found.metrics() == []
    assert passes(found, 0) == by_pass(passes(reference, 0))
    assert [t["task"] for t in found.transcripts()] == [row["task"] for row in passes(found, 0)[:4]]
    assert found.metadata["sessions"][0]["job"] == "evaluation"
    for unused in ("credit", "loss", "training", "rollout", "seed"):
        assert unused not in found.metadata["identity"]
    again = evaluate(tmp_path, *settings, "seed=1", "credit=grpo", "training.learning_rate=1")
    assert again[0] == 0 and f"run {found.id} is complete" in again[1]


def test_a_finished_run_is_evaluated_as_its_last_policy_was(trained):
    run = only(trained, UPDATES)
    code, _, err = evaluate(trained, f"run={run.id}")
    assert code == 0, err
    found = only(trained, 0)
    assert passes(found, 0) == by_pass(passes(run, UPDATES)) != by_pass(passes(run, 0))
    assert found.metadata["identity"]["run"] == run.id and found.transcripts() == run.transcripts()
    folder = found.path
    (folder / "run.json").unlink()  # as after SIGKILL in the second pass
    rows = (folder / "episodes.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    changed = json.dumps(json.loads(rows[0]) | {"steps": 99}) + "\n"
    (folder / "episodes.jsonl").write_text("".join([changed, *rows[1:4]]), encoding="utf-8")
    RunFolder(trained, folder.name).note_passes()
    with (folder / "episodes.jsonl").open("a", encoding="utf-8") as file:
        file.write("".join(rows[4:6]) + '{"torn')
    assert evaluate(trained, f"run={run.id}")[0] == 0
    went_on = read_run(folder).episodes()
    assert went_on[0]["steps"] == 99  # a whole pass is not made twice
    assert went_on[1:] == [json.loads(row) for row in rows[1:]]


BAD = {
    "run=none": "run=none: not found",
    "env=webshop": "fixes the settings",
    "evaluation.tasks=many": "could not be converted",
}


@pytest.mark.parametrize("override", BAD)
def test_what_cannot_be_evaluated_is_one_line(trained, override):
    run = only(trained, UPDATES).id
    code, _, err = evaluate(trained, *([] if override.startswith("run=") else [f"run={run}"]), override)
    assert code != 0 and BAD[override] in err and "Traceback" not in err


def test_a_run_without_its_policy_leaves_nothing_behind(trained, tmp_path):
    run = only(trained, UPDATES)
    copy = tmp_path / "runs" / run.id
    shutil.copytree(run.path, copy, ignore=shutil.ignore_patterns("policy"))
    code, _, err = evaluate(tmp_path, f"run={run.id}")
    assert code != 0 and "policy" in err and "Traceback" not in err and list(copy.parent.glob("*")) == [copy]


def test_training_without_updates_points_to_the_command(tmp_path):
    code, _, err = train(tmp_path, "updates=0")
    assert code == 2 and "python -m bepo.evaluate" in err and not list(tmp_path.glob("runs/*"))
