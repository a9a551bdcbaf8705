"""W&B and caches never fail a sweep whose runs are complete."""

import multiprocessing
import os

import pytest

from analysis.data.cache import load, save
from analysis.data.sources import Source
from bepo.core.places import EXPERIMENTS
from bepo.runs.config import Config
from bepo.store.files import DiskFull
from bepo.sweep import composition, pool
from bepo.sweep.__main__ import main
from tests.command import SMALLEST, Command

pytestmark = pytest.mark.slow

GRID = ("main_sokoban", *SMALLEST, "updates=1", "evaluation.every=0", "credit=grpo", "seed=0", "--jobs", "1")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A sweep whose only run is complete; the tests ask for its ledger."""
    path = tmp_path_factory.mktemp("results")
    assert main([*GRID, f"results={path}"]) == 0
    return path


FILE = "{file}"
HOMES = [{"HOME": "/proc"}, {"HOME": FILE}, {"WANDB_DATA_DIR": "/proc/x"}, {"WANDB_DATA_DIR": FILE}]
HOMES += [{"WANDB_CACHE_DIR": "/proc/x"}, {"WANDB_CONFIG_DIR": FILE}, {"XDG_DATA_HOME": "/proc/x"}]
MALFORMED = [{"WANDB_MODE": "odd"}, {"WANDB_INIT_TIMEOUT": "odd"}, {"WANDB_SILENT": "odd"}, {"WANDB_RUN_ID": "a/b"}]
MALFORMED += [{"WANDB_TAGS": ","}, {"WANDB_CONSOLE": "odd"}, {"WANDB_BASE_URL": "odd"}]


def swept(results, monkeypatch, variables, *overrides):
    """Run the sweep again with some variables; return its exit status and output."""
    for name in [name for name in os.environ if name.startswith(("WANDB_", "XDG_"))]:
        monkeypatch.delenv(name)
    (results / "file").touch()
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(file=results / "file"))
    command = Command("bepo.sweep", *GRID, f"results={results}", "tracking.mode=offline", *overrides)
    printed = "".join(command.communicate())
    assert "Traceback" not in printed and "1 of 1 runs complete" in printed, printed
    return command.returncode, printed


def ledgers(results):
    return {*results.glob("wandb/offline-run-*/files/media/table/ledger*")}


@pytest.mark.parametrize("variables", HOMES, ids=str)
def test_a_home_that_cannot_be_used_costs_nothing(variables, results, monkeypatch):
    before = ledgers(results)
    code, printed = swept(results, monkeypatch, variables)
    assert code == 0 and "W&B stopped" not in printed, printed
    assert len(ledgers(results) - before) == 1
    told = [line for line in printed.splitlines() if "no file can be written there; W&B uses" in line]
    assert len(told) == any(name.startswith("WANDB") for name in variables)


@pytest.mark.parametrize("variables", MALFORMED, ids=str)
def test_a_malformed_variable_is_one_line_and_no_failure(variables, results, monkeypatch):
    code, printed = swept(results, monkeypatch, variables)
    assert code == 0 and printed.count("the ledger is not logged") == 1, printed


def test_a_project_that_wandb_refuses_is_no_failure(results, monkeypatch):
    code, printed = swept(results, monkeypatch, {}, "tracking.project=a/b")
    assert code == 0 and printed.count("the ledger is not logged") == 1, printed


@pytest.mark.long
def test_without_a_network_the_ledger_is_logged_offline(results, monkeypatch):
    before, server = ledgers(results), {"WANDB_BASE_URL": "http://127.0.0.1:9", "WANDB_API_KEY": "0" * 40}
    code, printed = swept(results, monkeypatch, server, "tracking.mode=online")
    assert code == 0 and "tracking continues offline" in printed, printed
    assert len(ledgers(results) - before) == 1


def full(*arguments):
    raise DiskFull("no space left on the disk")


def test_a_full_disk_behind_a_cache_stops_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("BEPO_CACHE", str(tmp_path))
    monkeypatch.setattr("bepo.store.cache.write_atomically", full)
    assert composition.composed(EXPERIMENTS, "main_sokoban", []).tier == "smoke"
    save(1, "key")
    assert load(Source(tmp_path), "key") is None


def test_a_full_disk_is_not_called_bad_input(monkeypatch, tmp_path):
    monkeypatch.setattr("bepo.runs.train.train", full)
    arguments = (Config(results=str(tmp_path)), [], tmp_path / "log.txt")
    process = multiprocessing.get_context("fork").Process(target=pool.train_in_process, args=arguments)
    process.start()
    process.join()
    assert process.exitcode is not None and pool.explain_exit(process.exitcode) == "the disk is full"
    assert "error: no space left on the disk" in (tmp_path / "log.txt").read_text(encoding="utf-8")
