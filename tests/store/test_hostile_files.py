"""Files that were damaged, or made by a stranger: each is named in one line, does no harm, and hides no other run."""

import errno
import os
import pickle
import shutil
import socket
from pathlib import Path

import pytest

from analysis.data.sources import Source
from analysis.output import page
from analysis.output.latex import escape as latex_escape
from analysis.output.ledger import ledger
from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError
from bepo.envs.alfworld.pddl import disjuncts
from bepo.envs.webshop import cache
from bepo.store import archive, files, json_files
from bepo.store.archive import read_archive, write_archive
from bepo.store.files import Corrupt, DiskFull, digest_of_file, folder_name, part_of, write_atomically
from bepo.store.folders import remove_leftovers
from bepo.store.run_files import read_run
from bepo.store.runs import RunFolder
from bepo.store.tracking.wandb import _attach, _is_of_results
from tests.stored_runs import rewrite, write_run

DEEP = "[" * 100_000 + "]" * 100_000
PASSES = [[1.0, 0.0], [1.0, 1.0]]


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    results = tmp_path_factory.mktemp("two")
    for seed in (0, 1):
        write_run(results, "s", {"credit.name": "grpo", "seed": seed}, PASSES)
    return results


@pytest.fixture
def results(two_runs, tmp_path):
    return shutil.copytree(two_runs, tmp_path / "results")


def replaced(run: Path, name: str, text: str) -> None:
    """Replace a file in a way that ``run.json`` vouches for."""
    (run / name).write_text(text, encoding="utf-8")
    rewrite(run, lambda metadata: metadata["files"].update({name: digest_of_file(run / name)}))


def pipe(run: Path, name: str) -> None:
    (run / name).unlink()
    os.mkfifo(run / name)


def odd_value(name: str, value: object):
    return lambda run: rewrite(run, lambda metadata: metadata.update({name: value}))


ODD_VALUES = {
    "sessions": [5, [], [3], [{}]],
    "result": ["four", {"updates": "four"}],
    "task_sets": [{"test": {"digest": "d1"}}, 3],
    "identity": [7, [1], {"method_versions": 7}],
    "format_version": [99, None],
    "run_id": ["another", None],
    "files": [[], None],
}
ATTACKS = {
    "torn sessions": lambda run: (run / "sessions.json").write_text('{"ses', encoding="utf-8"),
    "no sessions": lambda run: (run / "sessions.json").unlink(),
    "no config": lambda run: (run / "config.json").unlink(),
    "deep run file": lambda run: (run / "run.json").write_text('{"a": ' + DEEP + "}", encoding="utf-8"),
    "deep rows": lambda run: replaced(run, "episodes.jsonl", DEEP),
    "rows of numbers": lambda run: replaced(run, "episodes.jsonl", "1\n2\n"),
    "no rows": lambda run: replaced(run, "episodes.jsonl", ""),
    "run file is a list": lambda run: (run / "run.json").write_text("[]", encoding="utf-8"),
    "run file is a pipe": lambda run: pipe(run, "run.json"),
    "metrics are a pipe": lambda run: pipe(run, "metrics.jsonl"),
    "config is a pipe": lambda run: pipe(run, "config.json"),
    "digest is a number": lambda run: rewrite(run, lambda metadata: metadata["files"].update({"metrics.jsonl": 5})),
    "file outside": lambda run: rewrite(run, lambda found: found["files"].update({"../../../etc/passwd": "0" * 64})),
    "config is a list": lambda run: replaced(run, "config.json", "[1, 2]"),
    "config is junk": lambda run: replaced(run, "config.json", "junk"),
    **{
        f"run file is {text!r}": lambda run, text=text: (run / "run.json").write_text(text, encoding="utf-8")
        for text in ("5", "{}", "{")
    },
    "run file is no text": lambda run: (run / "run.json").write_bytes(b"\xff\xfe"),
    **{f"{name} {value!r}": odd_value(name, value) for name, values in ODD_VALUES.items() for value in values},
    "part is a number": lambda run: rewrite(run, lambda metadata: metadata["identity"].update(credit=3)),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_unreadable_run_is_named_and_the_others_are_shown(results, name):
    bad, good = sorted((results / "runs").iterdir())
    ATTACKS[name](bad)
    study = Source(results).study("s", "laptop")
    assert [run.id for run in study.runs] == [good.name]
    (line,) = study.skipped
    assert str(bad) in line and "\n" not in line and len(line) < 1300
    assert set(ledger(results)["run"]) == {bad.name, good.name}
    RunFolder(results, bad.name).progress()


def test_a_full_disk_is_one_line_with_place_and_bytes(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "a").write_text("old", encoding="utf-8")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFull, match=rf"{tmp_path}/a: no space left .* 3 bytes are needed"):
        write_atomically(tmp_path / "a", "new")
    assert (tmp_path / "a").read_text(encoding="utf-8") == "old" and len(list(tmp_path.iterdir())) == 1


def test_what_a_kill_left_half_written_goes_at_the_next_start(tmp_path):
    run = RunFolder(tmp_path, "0123456789ab")
    (run.path / "checkpoint-3.part").mkdir(parents=True)
    (run.path / "config.json.77.part").write_text("{", encoding="utf-8")
    (run.path / "rollouts").mkdir()
    (run.path / "rollouts" / "000005.npz.99.part").write_text("half", encoding="utf-8")
    with run.locked():
        assert {path.name for path in run.path.rglob("*")} == {".lock", "rollouts"}
    (tmp_path / "x.part").write_text("", encoding="utf-8")
    remove_leftovers(tmp_path, seconds=3600)
    assert (tmp_path / "x.part").exists()


@pytest.mark.parametrize("name", ["../x", "/x", "", ".x", "a/b", "a\nb", "a\0", None, 3, "x" * 200])
def test_names_that_lead_elsewhere_become_no_folder(name):
    with pytest.raises(UserError, match="must be a name"):
        folder_name(name, "study.name")


def test_an_archive_unpacks_to_bounded_content(results, tmp_path, monkeypatch):
    stored = read_run(min((results / "runs").iterdir()))
    path = tmp_path / f"{stored.id}.zip"
    write_archive(stored, path)
    read_archive(path)
    monkeypatch.setattr(archive, "MOST_BYTES", 1000)
    with pytest.raises(Corrupt, match="unpacks to more than"):
        read_archive(path)


def test_a_large_file_is_not_read(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("{}" + " " * 100, encoding="utf-8")
    monkeypatch.setattr(files, "MOST_BYTES", 100)
    with pytest.raises(Corrupt, match="more than 100 bytes"):
        json_files.read_object(tmp_path / "a", "config")


@pytest.mark.parametrize(
    "name, allowed",
    [
        ("runs/0123456789ab/run.json", True),
        ("runs/0123456789ab/rollouts/000001.npz", True),
        ("studies/main_sokoban/laptop/0123.json", True),
        ("runs/../../.bashrc", False),
        ("runs//etc/passwd", False),
        ("runs/a/./b", False),
        ("/etc/passwd", False),
        ("wandb-summary.json", False),
    ],
)
def test_a_project_writes_into_the_results_folder_only(name, allowed):
    assert _is_of_results(name) == allowed


def test_links_for_wandb_are_relative(tmp_path):
    class Mirror:
        dir = str(tmp_path / "mirror")

        def save(self, path, base_path, policy):
            assert Path(path).read_text(encoding="utf-8") == "content"

    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "a").write_text("content", encoding="utf-8")
    _attach(Mirror(), [tmp_path / "runs" / "a"], tmp_path)
    assert not (tmp_path / "mirror" / "runs" / "a").readlink().is_absolute()


class Payload:
    def __reduce__(self):
        return os.mkdir, ("ran",)


def test_a_pickle_in_place_of_a_cached_catalogue_does_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.npz").write_bytes(pickle.dumps(Payload()))
    with pytest.raises(Corrupt, match="not a cached catalogue"):
        cache.read(tmp_path / "a.npz", tmp_path, tmp_path)
    assert not (tmp_path / "ran").exists()


def test_a_condition_that_multiplies_out_without_end_is_refused():
    with pytest.raises(UserError, match="more than 4096 alternatives") as told:
        disjuncts(["and", *(["or", [f"a{i}"], [f"b{i}"]] for i in range(26))])
    assert "env.engine" not in str(told.value)  # the other engine has no limit


def test_the_page_escapes_what_it_shows():
    html = page.render([], ["smoke"], "<script>alert(1)</script>")
    assert "<script>alert" not in html and "&lt;script&gt;alert" in html


def test_a_message_is_one_bounded_line():
    text = str(UserError("a\n\x1b[31m" + "x" * 10_000))
    assert text.isprintable() and len(text) < 1300


ROW = {"uid": 0, "traj": 0, "t": 0, "obs": "a", "next": "b", "r": 1.0, "done": "success", "valid": True}


@pytest.mark.parametrize(
    "name, change",
    [
        ("reward", lambda a: a[:-1]),
        ("state", lambda a: a + 1000),
        ("next_state", lambda a: a - 1000),
        ("group", lambda a: a + 1),
        ("task_score", lambda a: a[:0]),
        ("state_key", lambda a: a[:-1]),
    ],
)
def test_arrays_that_do_not_fit_each_other_are_refused(name, change):
    batch = RolloutBatch.from_rows([ROW, ROW | {"traj": 1}])
    parts = {field: getattr(batch, field) for field in batch.__dataclass_fields__}
    with pytest.raises(UserError):
        RolloutBatch(**parts | {name: change(parts[name])})


@pytest.mark.parametrize("text", [r"a $\input{/etc/passwd}$ b", "costs $5 and $10_x", "$ x $", "$a%b$"])
def test_only_what_is_mathematics_is_left_to_tex(text):
    assert "$" not in latex_escape(text).replace(r"\$", "")


def test_two_containers_with_equal_process_numbers_write_to_files_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: 1)
    monkeypatch.setattr(socket, "gethostname", lambda: "host" * 100)
    parts = {part_of(tmp_path / "a.json") for _ in range(2)}
    assert len(parts) == 2 and all(part.match("a.json.host*.1.*.part") for part in parts)
    for part in parts:
        part.touch()
    remove_leftovers(tmp_path)
    assert not list(tmp_path.iterdir())
