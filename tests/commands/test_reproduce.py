"""``bepo.reproduce``: the published counterparts of its runs, and what it says; and ``bepo.sweep --brief``."""

import io
import re
from types import SimpleNamespace

import pytest

from bepo import reproduce
from bepo.runs.compose import register
from bepo.store.published import PUBLISHED, PublishedRuns
from bepo.sweep.plan import plan_runs
from bepo.sweep.show import Brief
from bepo.sweep.studies import compose_study

UPDATES = 20


@pytest.fixture(scope="module")
def runs():
    register([])
    return plan_runs([compose_study("reproduce", ["tier=laptop"])])


def test_each_run_makes_the_first_updates_of_a_published_run(runs):
    found = reproduce.published_counterparts(runs)
    assert [run.config.credit.name for run in runs] == ["grpo", "gated_bepo", "shrunk_bepo", "oracle"]
    assert [run.id for run in runs] == list(found)
    different = {"updates", "evaluation", "results", "tracking", "study", "progress", "plugins"}
    for run in runs:
        old = found[run.id].config
        assert run.config.updates == UPDATES < old["updates"]
        for part in vars(run.config).keys() - different:
            ours = vars(run.config)[part]
            known = old.get(part, None)
            if isinstance(known, dict):
                ours = {name: getattr(ours, name) for name in known if not isinstance(known[name], dict)}
                known = {name: value for name, value in known.items() if not isinstance(value, dict)}
            assert part not in old or ours == known, part
    start = {run.metadata["warm_start"]["name"] for run in found.values()}
    assert len(start) == 1 and (PUBLISHED / "laptop" / "warm_starts" / start.pop()).exists()


def test_the_number_of_a_run_is_its_success_in_the_last_updates():
    stored = SimpleNamespace(metrics=lambda: [{"update": u, "train/success": u / 100} for u in range(1, 41)])
    assert reproduce.success(stored, UPDATES) == pytest.approx(0.155)  # of updates 11 to 20


@pytest.mark.parametrize(
    "yours, cpu, words",
    [
        (0.5, "one", "1 of 1 numbers equal the published ones exactly."),
        (0.6, "one", "0 of 1 numbers equal .* of the same kind as theirs: python -m bepo.verify"),
        (0.6, "another", "0 of 1 numbers equal .* Another kind of CPU rounds differently"),
    ],
)
def test_the_verdict_says_whether_numbers_may_differ(yours, cpu, words):
    pair = [_stored(0.5, "one"), _stored(yours, cpu)]
    assert re.search(words, reproduce.verdict([tuple(pair), (None, pair[1])]))


def _stored(success, cpu):
    machine = {"cpu": cpu, "instructions": "", "threads": 1, "blas": "", "versions": {}}
    metadata = {"result": {"updates": UPDATES}, "sessions": [{"machine": machine}]}
    rows = [{"update": update, "train/success": success} for update in range(1, UPDATES + 1)]
    return SimpleNamespace(metadata=metadata, metrics=lambda: rows)


def test_a_line_of_each_run_has_both_numbers(runs):
    published = PublishedRuns(PUBLISHED / "laptop")
    old = {run.id: published.run(published.ids()[0]) for run in runs[:1]}
    lines = reproduce.Lines(SimpleNamespace(), 1, runs[:2], old)
    first, second = (lines._state(run)["said"] for run in runs[:2])
    assert first == f"published: {reproduce.success(old[runs[0].id], UPDATES):.3f}" and second == "published: none"


def test_a_brief_sweep_prints_failures_and_totals_but_no_success():
    made = SimpleNamespace(updates=0)
    run = SimpleNamespace(label="main  seed=0", folder=SimpleNamespace(path=""), log="log.txt", id="a")
    run.progress = lambda hashed: made
    throughput = SimpleNamespace(add=lambda path: None)
    view = Brief(throughput, 2, 3, out=(out := io.StringIO()))
    worker = SimpleNamespace(run=run, exit_code=1, started=0.0)
    view.begin(0, 0)
    view.started(worker)
    view.completed(worker)
    view.note("trial 0: validation_success 0.000")
    view.failed(worker)
    assert out.getvalue() == "FAILED  main  seed=0: exit status 1  (log.txt)\n"
    assert (view.n_complete, view.n_failed) == (1, 1)
