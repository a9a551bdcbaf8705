import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bepo.store.archive import check_archive, read_archive, write_archive
from bepo.store.files import Corrupt
from bepo.store.run_files import StoredRun, read_run
from bepo.store.runs import RunFolder

LIMIT = 2**63 - 1
NUMBERS = st.integers(-LIMIT, LIMIT) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.none() | st.booleans() | NUMBERS
METRICS = st.lists(st.dictionaries(st.sampled_from("abcdef"), VALUES))
EPISODE = {"update": 1, "split": "test", "evaluation_seed": 0, "task": "t", "success": True}
EPISODES = st.lists(st.dictionaries(st.sampled_from("abcdef"), VALUES | st.text()).map(lambda row: row | EPISODE))
STEP = {"prompt": "p", "response": "r", "action": None, "observation": "o", "reward": 0.0}


def stored(results: Path, metrics: list[dict], episodes: Sequence[dict] = ()) -> StoredRun:
    folder = RunFolder(results, "abc")
    with folder.locked():
        folder.start({"seed": 0}, {"commit": None})
        folder.append("metrics", *metrics)
        folder.append("episodes", *episodes)
        (folder.path / "rollouts").mkdir(exist_ok=True)
        (folder.path / "rollouts" / "000001.npz").write_bytes(b"rollouts")
        folder.write_transcripts([{"task": "t", "success": True, "steps": [STEP]}])
        folder.complete({"tier": "smoke"})
    return read_run(folder.path)


@given(METRICS, EPISODES)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_archive_unpacks_to_the_same_rows(tmp_path, metrics, episodes):
    (tmp_path / "runs" / "abc").mkdir(parents=True, exist_ok=True)
    for stream in ("metrics", "episodes"):
        (tmp_path / "runs" / "abc" / f"{stream}.jsonl").unlink(missing_ok=True)
    run = stored(tmp_path, metrics, episodes)
    write_archive(run, tmp_path / "abc.zip")
    found = check_archive(tmp_path / "abc.zip")
    assert [*map(list, map(dict.items, found.metrics()))] == [*map(list, map(dict.items, run.metrics()))]
    assert found.episodes() == run.episodes()
    assert (found.metadata, found.config, found.id) == (run.metadata, run.config, run.id)


def test_only_a_complete_archive_has_rollouts_and_transcripts(tmp_path):
    run = stored(tmp_path, [{"update": 1}])
    write_archive(run, tmp_path / "small" / "abc.zip")
    write_archive(run, tmp_path / "complete" / "abc.zip", complete=True)
    small, complete = read_archive(tmp_path / "small" / "abc.zip"), check_archive(tmp_path / "complete" / "abc.zip")
    assert small.rollouts() == {} and small.transcripts() == []
    assert complete.read(complete.rollouts()[1]) == b"rollouts" and complete.transcripts() == run.transcripts()


def test_a_file_that_the_list_of_files_lacks_is_refused(tmp_path):
    path = tmp_path / "abc.zip"
    write_archive(stored(tmp_path, [{"update": 1}]), path)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("transcripts.jsonl", b"{}")
    for read in (read_archive, check_archive):
        with pytest.raises(Corrupt, match=r"transcripts\.jsonl is not both in the archive and in its list"):
            read(path)


def test_equal_runs_have_equal_archives(tmp_path):
    run = stored(tmp_path, [{"update": 1}])
    write_archive(run, tmp_path / "abc.zip")
    first = (tmp_path / "abc.zip").read_bytes()
    write_archive(run, tmp_path / "abc.zip")
    assert (tmp_path / "abc.zip").read_bytes() == first


def test_no_flipped_bit_is_read(tmp_path):
    run = stored(tmp_path, [{"update": i, "x": i / 3} for i in range(5)])
    path = tmp_path / "abc.zip"
    write_archive(run, path)
    data = path.read_bytes()
    for place in range(0, len(data), 7):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        try:
            found = read_archive(path)
        except Corrupt as error:
            assert str(error).startswith(str(path))
        else:  # a byte of the zip format that says nothing
            assert (found.metadata, found.config, found.metrics()) == (run.metadata, run.config, run.metrics())


def rewritten(path: Path, name: str, data: bytes) -> None:
    with zipfile.ZipFile(path) as file:
        members = {member: file.read(member) for member in file.namelist()}
    with zipfile.ZipFile(path, "w") as file:
        for member, content in (members | {name: data}).items():
            file.writestr(member, content)


@given(METRICS)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_columns_are_the_rows_with_none_where_a_row_has_no_such_column(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("columns")
    run = stored(folder, rows)
    write_archive(run, folder / "abc.zip")
    archived = read_archive(folder / "abc.zip")
    expected = {name: [row.get(name) for row in rows] for name in dict.fromkeys(n for row in rows for n in row)}
    assert archived.columns("metrics") == run.columns("metrics") == expected
    assert archived.columns("metrics") == expected, "the second reading unpacks the file again"


def test_an_archive_of_another_run_or_with_other_rows_is_refused(tmp_path):
    path = tmp_path / "abc.zip"
    write_archive(stored(tmp_path, [{"update": 1}]), path)
    path.rename(tmp_path / "other.zip")
    with pytest.raises(Corrupt, match="not the file of run other"):
        read_archive(tmp_path / "other.zip")
    (tmp_path / "other.zip").rename(path)
    rewritten(path, "metrics.json", b"{}")
    with pytest.raises(Corrupt, match=r"metrics\.json changed"):
        read_archive(path)
    path.write_text("no zip", encoding="utf-8")
    with pytest.raises(Corrupt, match="not an archive of a run"):
        read_archive(path)
