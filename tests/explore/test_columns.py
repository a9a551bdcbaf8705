"""The store of published runs: the same tables as the archives give, and no archive that changed is hidden."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from bepo.explore import columns
from bepo.explore.columns import ColumnRun, PublishedColumns, table_of
from bepo.store import cache
from bepo.store.archive import read_archive, write_archive
from bepo.store.files import Corrupt
from bepo.store.published import PublishedRuns
from bepo.store.run_files import STREAMS, read_run
from tests.stored_runs import damage, write_run

PASSES = ((1, 0, 0, 0), (1, 1, 0, 0))


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Three published runs; two have the same columns."""
    monkeypatch.setenv("BEPO_CACHE", str(tmp_path / "cache"))
    runs = PublishedRuns(tmp_path / "published" / "laptop")
    for seed, logged in enumerate(({"a": 1, "b": 0.5}, {"a": 2, "b": 1.5}, {"b": 0.25, "c": True})):
        publish(runs, tmp_path / "results", seed, metrics=logged)
    return runs


def publish(runs: PublishedRuns, results: Path, seed: int, **options) -> str:
    folder = write_run(results, "s", {"seed": seed, "credit.name": "grpo"}, PASSES, **options)
    write_archive(read_run(folder.path), runs.archive(folder.id))
    return folder.id


def store() -> list[Path]:
    return sorted((Path(os.environ["BEPO_CACHE"]) / "runs").glob("*"))


def check(published: PublishedRuns, stored: bool = True) -> None:
    """Every run has the tables, metadata and config of its archive."""
    found = PublishedColumns(published)
    for run_id in published.ids():
        run, expected = found.run(run_id), read_archive(published.archive(run_id))
        assert isinstance(run, ColumnRun) == stored
        assert (run.id, run.path, run.metadata, run.config) == (
            expected.id,
            expected.path,
            expected.metadata,
            expected.config,
        )
        for stream in STREAMS:
            pd.testing.assert_frame_equal(table_of(run, stream), table_of(expected, stream), check_column_type=False)
            assert run.rows(stream) == expected.rows(stream)


def test_the_tables_are_those_of_the_archives(published, monkeypatch):
    check(published)
    monkeypatch.setattr(columns, "read_archive", None)  # from now on no archive is unpacked
    monkeypatch.setattr(PublishedRuns, "run", None)
    tables = [table_of(PublishedColumns(published).run(run_id), "metrics") for run_id in published.ids()]
    assert sorted("".join(table)[len("updatetrain/success") :] for table in tables) == ["ab", "ab", "bc"]
    assert len(store()) == 1


def test_many_archives_are_read_in_forks(published, tmp_path, monkeypatch):
    monkeypatch.setattr(columns, "_MANY", 0)
    broken = publish(published, tmp_path / "results", 5, metrics={"a": 1})
    damage(published.archive(broken))
    with pytest.raises(Corrupt):
        PublishedColumns(published).run(broken)  # makes the store
    published.archive(broken).unlink()
    monkeypatch.setattr(columns, "map_in_forks", None)  # every other archive is in the store
    check(published)


def test_a_column_that_is_a_number_in_one_run_and_none_in_another_keeps_both(published, tmp_path):
    publish(published, tmp_path / "results", 7, metrics=[{"a": 0.5}, {"a": None}])
    publish(published, tmp_path / "results", 8, metrics={"a": True, "own": 1})
    check(published)


def test_a_new_archive_and_one_that_is_gone_are_noticed(published, tmp_path):
    check(published)
    (path,) = store()
    first = path.read_bytes()
    new = publish(published, tmp_path / "results", 9, metrics={"new": 1.0})
    check(published)
    assert new in published.ids() and store() == [path] and path.read_bytes() != first
    published.archive(new).unlink()
    check(published)
    with pytest.raises(Corrupt):
        PublishedColumns(published).run(new)


def test_a_store_without_any_archive_of_its_folder_is_made_again(published, tmp_path):
    check(published)
    for run_id in published.ids():
        published.archive(run_id).unlink()
    publish(published, tmp_path / "results", 9)
    check(published)


def test_a_replaced_archive_is_noticed_even_with_its_size_and_time(published, tmp_path):
    check(published)
    path = published.archive(published.ids()[0])
    damage(path)
    with pytest.raises(Corrupt, match=path.stem):
        PublishedColumns(published).run(path.stem)
    path.write_bytes(published.archive(published.ids()[1]).read_bytes())  # whole, but of another run
    with pytest.raises(Corrupt, match="not the file of run"):
        PublishedColumns(published).run(path.stem)


@pytest.mark.parametrize("damage", [lambda data: data[:100], lambda data: data[:-200] + bytes(200), lambda data: b""])
def test_a_damaged_store_is_made_again(published, damage):
    check(published)
    (path,) = store()
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    check(published)
    assert store()[0].read_bytes() == whole


def test_a_store_of_another_code_is_not_read(published, monkeypatch):
    check(published)
    (path,) = store()
    monkeypatch.setattr(columns, "_READERS", columns._READERS[:1])
    check(published)
    assert len(store()) == 2 and path.exists()


CODE = """
import sys
from pathlib import Path
from bepo.explore.columns import PublishedColumns, table_of
from bepo.store.published import PublishedRuns
from tests.without_rights import drop
drop()
runs = PublishedColumns(PublishedRuns(Path(sys.argv[1])))
print(sum(len(table_of(runs.run(run_id), "episodes")) for run_id in runs.published.ids()))
"""


def read_elsewhere(published: PublishedRuns, processes: int) -> None:
    """Other processes, without root's rights, read the episodes of all runs at once."""
    command = [sys.executable, "-c", CODE, str(published.folder)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8") for _ in range(processes)]
    episodes = sum(len(read_archive(published.archive(i)).episodes()) for i in published.ids())
    assert [process.communicate()[0] for process in started] == [f"{episodes}\n"] * processes


def test_two_processes_make_it_at_once(published):
    read_elsewhere(published, 2)
    assert len(store()) == 1
    check(published)


def test_a_cache_that_cannot_be_written_costs_time_only(published, tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o500)
    read_elsewhere(published, 1)
    assert not any(folder.iterdir())


def test_a_cache_whose_folder_is_a_file_costs_time_only(published, tmp_path):
    (tmp_path / "cache").write_text("no folder", encoding="utf-8")
    check(published)


def test_what_is_old_or_damaged_is_not_kept(published, tmp_path):
    check(published)
    (path,) = store()
    old = path.with_name("0-1.parquet")
    shutil.copy(path, old)
    os.utime(old, (0, 0))
    cache._remove_old.cache_clear()  # as in another process
    publish(published, tmp_path / "results", 5)
    check(published)
    assert not old.exists() and store() == [path]
