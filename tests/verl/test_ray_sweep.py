"""``bepo.sweep --ray`` on a local Ray cluster: two nodes, which are processes with one CPU each."""

import signal
import subprocess
import sys
import time

import pytest
from ray.cluster_utils import Cluster

from bepo.store.run_files import read_run
from bepo.store.runs import RunFolder
from tests.command import SMALLEST, writers

CELLS = ("main_sokoban", *SMALLEST, "checkpoint_every=1", "model=small", "credit=grpo", "seed=0,1")


@pytest.fixture
def cluster():
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "num_gpus": 0})
    yield made
    made.shutdown()


def sweep(results, cluster, *arguments):
    command = [sys.executable, "-m", "bepo.sweep", *CELLS, f"results={results}", "--ray", cluster.address, *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "encoding": "utf-8"}
    return subprocess.Popen(command, **pipes)


def rows(results):
    """Return the number of updates of each run that has begun, in ascending order."""
    return sorted(p.read_text(encoding="utf-8").count("\n") for p in results.glob("runs/*/metrics.jsonl"))


def wait_for(condition, process):
    deadline = time.monotonic() + 600
    while not condition():
        assert process.poll() is None and time.monotonic() < deadline, process.stdout.read()
        time.sleep(0.05)


def test_two_nodes_train_at_once_and_a_lost_node_costs_no_run(tmp_path, cluster):
    """Each node has one CPU, so two runs at a time are on two nodes. One node is lost after some updates."""
    node = cluster.add_node(num_cpus=1, num_gpus=0)
    process = sweep(tmp_path, cluster, "updates=40")
    wait_for(lambda: len(rows(tmp_path)) == 2 and min(rows(tmp_path)) >= 2, process)
    assert max(rows(tmp_path)) < 40  # both are at work
    cluster.remove_node(node, allow_graceful=False)
    out, _ = process.communicate(timeout=900)
    assert process.returncode == 0 and "2 of 2 runs complete" in out, out
    runs = [read_run(path.parent) for path in tmp_path.glob("runs/*/run.json")]
    assert sorted(len(run.metadata["sessions"]) for run in runs) == [1, 2]
    assert all([row["update"] for row in run.metrics()] == list(range(1, 41)) for run in runs)


def test_ctrl_c_saves_checkpoints_twice_stops_at_once_and_no_process_stays(tmp_path, cluster):
    cluster.add_node(num_cpus=1, num_gpus=0)
    for presses in (1, 2):
        more = min(rows(tmp_path), default=0) + 2
        process = sweep(tmp_path, cluster, "updates=400", "checkpoint_every=1000")
        wait_for(lambda more=more: len(rows(tmp_path)) == 2 and min(rows(tmp_path)) >= more, process)
        for _ in range(presses):
            process.send_signal(signal.SIGINT)
            time.sleep(0.7)  # longer than the sweep waits for ends
        out, _ = process.communicate(timeout=300)
        assert process.returncode == 130 and out.count("stopped main_sokoban") == 2, out
        assert "Traceback" not in out and "the same command continues from here" in out, out
        assert not [pid for path in tmp_path.glob("runs/*/log.txt") for pid in writers(path)]
        if presses == 1:
            saved = sorted(RunFolder(tmp_path, path.name).checkpoints()[0][0] for path in tmp_path.glob("runs/*"))
            assert saved == rows(tmp_path)
    for path in tmp_path.glob("runs/*"):
        assert [row["update"] for row in RunFolder(tmp_path, path.name).rows("metrics")][:3] == [1, 2, 3]


def test_what_no_machine_has_is_one_line(tmp_path, cluster):
    process = sweep(tmp_path, cluster, "backend.device=cuda")
    out, _ = process.communicate(timeout=600)
    last = out.strip().splitlines()[-1]
    assert process.returncode == 2 and "no machine of the cluster has 1 CPUs and 1 GPUs for a run" in last, out
    assert "Traceback" not in out and not list(tmp_path.glob("runs/*"))
