import json
import os
import shutil
from types import SimpleNamespace

import pytest

from bepo.core.errors import UserError
from bepo.store.files import Corrupt
from bepo.store.json_files import read_sealed, write_sealed
from bepo.store.run_files import FORMAT_VERSION, read_run, refuse_older
from bepo.store.runs import Busy, RunFolder, run_id
from tests.stored_runs import rewrite

EPISODE = {"update": 0, "split": "test", "evaluation_seed": 0, "task": "t", "kind": "", "success": True}


def written(tmp_path, **metadata):
    folder = RunFolder(tmp_path, "abc")
    with folder.locked():
        folder.start({"seed": 0}, {"commit": None})
        folder.append("metrics", {"update": 1, "x": 0.5}, {"update": 2, "x": float("nan")})
        folder.append("episodes", EPISODE)
        folder.complete({"tier": "smoke", **metadata})
    return folder


def swapped(path, old, new):
    return path.read_text(encoding="utf-8").replace(old, new)


def test_round_trip(tmp_path):
    found = read_run(written(tmp_path, note=float("inf")).path)
    assert found.id == "abc" and found.config == {"seed": 0} and found.metadata["note"] is None
    assert found.metrics() == [{"update": 1, "x": 0.5}, {"update": 2, "x": None}]
    assert found.episodes() == [EPISODE]


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda p: (p / "run.json").unlink(), "incomplete"),
        (lambda p: (p / "run.json").write_text("{", encoding="utf-8"), "not a run file"),
        (lambda p: (p / "run.json").write_text("[]", encoding="utf-8"), "not a run file"),
        (lambda p: (p / "metrics.jsonl").unlink(), "metrics.jsonl: missing"),
        (lambda p: (p / "config.json").write_text("{}", encoding="utf-8"), "config.json: changed"),
        (
            lambda p: (p / "run.json").write_text(
                (p / "run.json").read_text(encoding="utf-8").replace("smoke", "paper"), encoding="utf-8"
            ),
            "run.json: changed",
        ),
        (lambda p: (p / "episodes.jsonl").open("a", encoding="utf-8").write("{}\n"), "episodes.jsonl: changed"),
    ],
)
def test_damage_is_named(tmp_path, damage, message):
    folder = written(tmp_path)
    damage(folder.path)
    with pytest.raises(Corrupt, match=message):
        read_run(folder.path)


def test_a_list_of_runs_believes_sizes_and_times(tmp_path):
    """What was written after its run was completed is hashed; what only decayed is hashed when it is read."""
    folder = written(tmp_path)
    file = folder.path / "episodes.jsonl"
    before = file.stat()
    file.write_bytes(file.read_bytes().replace(b"true", b"fals"))
    with pytest.raises(Corrupt, match=r"episodes\.jsonl: changed"):
        read_run(folder.path, hashed=False)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns - 10**9))
    assert read_run(folder.path, hashed=False).id == "abc"
    with pytest.raises(Corrupt, match=r"episodes\.jsonl: changed"):
        read_run(folder.path)
    file.write_bytes(file.read_bytes() + b"\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns - 10**9))
    with pytest.raises(Corrupt, match=r"episodes\.jsonl: changed"):
        read_run(folder.path, hashed=False)


def test_a_run_of_before_sizes_were_noted_is_hashed(tmp_path):
    folder = written(tmp_path)
    rewrite(folder.path, lambda metadata: metadata.pop("sizes"))
    assert read_run(folder.path, hashed=False).id == "abc"
    file = folder.path / "metrics.jsonl"
    file.write_text("", encoding="utf-8")
    os.utime(file, (0, 0))
    with pytest.raises(Corrupt, match=r"metrics\.jsonl: changed"):
        read_run(folder.path, hashed=False)


def test_foreign_versions_are_refused(tmp_path):
    path = written(tmp_path).path / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"format_version": 9}), encoding="utf-8")
    with pytest.raises(Corrupt, match="format 9"):
        read_run(path.parent)


def test_ids_depend_on_content_not_on_order():
    a, b = {"x": 1, "y": {"z": 2.0}}, {"y": {"z": 2.0}, "x": 1}
    assert run_id(a) == run_id(b) != run_id(a | {"x": 2})


def test_one_writer_at_a_time(tmp_path):
    folder = RunFolder(tmp_path, "abc")
    with folder.locked(), pytest.raises(Busy, match="another process"), folder.locked():
        pass
    with folder.locked():
        pass


@pytest.fixture
def folder(tmp_path):
    """A run with checkpoints 4 and 8, eight rows before the newest, and one and a torn one after it."""
    folder = RunFolder(tmp_path, "abc")
    with folder.locked():
        for update in range(1, 9):
            folder.append("metrics", {"update": update})
            if update % 4 == 0:
                with folder.new_checkpoint(update) as path:
                    (path / "policy").mkdir()
                    (path / "policy" / "weights").write_text(str(update), encoding="utf-8")
        folder.append("metrics", {"update": 9})
        with (folder.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write('{"update": 10, "tr')
        yield folder


@pytest.mark.parametrize("older", [False, True])
def test_a_checkpoint_under_the_name_of_another_update_is_refused(folder, older, capsys):
    shutil.rmtree(folder.path / "checkpoint-8")
    path = (folder.path / "checkpoint-4").rename(folder.path / "checkpoint-8")
    if older:  # its seal does not name the update
        seal = read_sealed(path / "content.json", "")
        write_sealed(path / "content.json", {name: seal[name] for name in ("files", "run", "rows")})
    with pytest.raises(Corrupt, match="checkpoint-8: is the checkpoint of update 4, not of 8; no checkpoint is intact"):
        folder.rewind()
    assert updates(folder) == list(range(1, 10))


def test_refused_checkpoints_are_set_aside_and_saved_again(folder, capsys):
    for n in ("", "-2"):
        flip(folder.path / "checkpoint-8" / "policy" / "weights")
        assert folder.rewind()[0] == 4 and [update for update, _ in folder.checkpoints()] == [4]
        aside = folder.path / f"refused-checkpoint-8{n}"
        assert (aside / "policy" / "weights").exists() and f"set aside as {aside.name}" in capsys.readouterr().err
        folder.append("metrics", *({"update": update} for update in range(5, 9)))
        with folder.new_checkpoint(8) as path:
            (path / "policy").mkdir()
            (path / "policy" / "weights").write_text("8", encoding="utf-8")
    assert folder.rewind()[0] == 8


def kept(folder):
    return sorted(path.name for path in (folder.path / "rollouts").iterdir())


@pytest.fixture
def with_rollouts(folder):
    """Rollouts of updates 1 and 6 and transcripts, all before checkpoint 12; rollouts of update 13 after it."""
    (folder.path / "rollouts").mkdir()
    folder.rewind()
    for update in range(9, 14):
        if update == 13:
            folder.write_transcripts([{"task": "t"}])
            with folder.new_checkpoint(12) as path:
                (path / "weights").write_text("12", encoding="utf-8")
        folder.append("metrics", {"update": update})
        for number in {9: (1, 6), 13: (13,)}.get(update, ()):
            (folder.path / "rollouts" / f"{number:06d}.npz").write_bytes(b"own")
    return folder


def test_rollouts_of_later_updates_are_dropped_and_others_stay(with_rollouts, capsys):
    (with_rollouts.path / "rollouts" / "000003.npz").write_bytes(b"of another run")
    assert with_rollouts.rewind()[0] == 12 and kept(with_rollouts) == ["000001.npz", "000006.npz"]
    assert (with_rollouts.path / "transcripts.jsonl.gz").exists() and not capsys.readouterr().err


def test_rollouts_that_are_gone_are_named(with_rollouts, capsys):
    (with_rollouts.path / "rollouts" / "000001.npz").unlink()
    assert with_rollouts.rewind()[0] == 12
    assert capsys.readouterr().err == f"{with_rollouts.path}/rollouts/000001.npz: is gone; the run goes on without it\n"


@pytest.mark.parametrize("name", ["rollouts/000006.npz", "transcripts.jsonl.gz"])
def test_rollouts_and_transcripts_of_another_run_are_set_aside(with_rollouts, name, capsys):
    (with_rollouts.path / name).write_bytes(b"of another run")
    assert with_rollouts.rewind()[0] == 12 and not (with_rollouts.path / name).exists()
    aside = f"refused-{name.rpartition('/')[2]}"
    assert f"{name}: changed since it was written; set aside as {aside}" in capsys.readouterr().err
    assert (with_rollouts.path / aside).read_bytes() == b"of another run"


def test_a_damaged_checkpoint_of_a_shorter_run_is_not_continued(folder):
    longer = RunFolder(folder.results, "abd")
    longer.path.mkdir()
    flip(folder.path / "checkpoint-8" / "policy" / "weights")
    with pytest.raises(Corrupt, match="weights: changed"):
        longer.continue_from(folder, 8)
    assert not list(longer.path.iterdir())


def updates(folder):
    return [row["update"] for row in folder.rows("metrics")]


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def test_a_run_goes_on_from_its_newest_checkpoint(folder):
    update, path = folder.rewind()
    assert update == 8 and (path / "policy" / "weights").read_text(encoding="utf-8") == "8"
    assert updates(folder) == list(range(1, 9))
    assert (folder.path / "episodes.jsonl").read_text(encoding="utf-8") == ""
    folder.append("metrics", {"update": 9})
    assert updates(folder) == list(range(1, 10))


@pytest.mark.parametrize("damaged", ["policy/weights", "content.json"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(folder, damaged, capsys):
    flip(folder.path / "checkpoint-8" / damaged)
    update, path = folder.rewind()
    assert update == 4 and (path / "policy" / "weights").read_text(encoding="utf-8") == "4"
    assert updates(folder) == [1, 2, 3, 4]
    err = capsys.readouterr().err
    assert f"checkpoint-8/{damaged}: " in err and "from update 4" in err and err.count("\n") == 1


def test_a_file_that_a_checkpoint_lost_or_gained_is_damage(folder):
    (folder.path / "checkpoint-8" / "policy" / "weights").unlink()
    assert folder.rewind()[0] == 4
    (folder.path / "checkpoint-4" / "more").write_text("", encoding="utf-8")
    with pytest.raises(Corrupt, match="no checkpoint is intact"):
        folder.rewind()


def test_a_checkpoint_of_another_run_is_named_and_the_one_before_is_used(folder, capsys):
    """Its rows are the same, as those of runs that differ in the learning rate are before the first update."""
    other = RunFolder(folder.results, "abd")
    other.path.mkdir()
    shutil.copy(folder.path / "metrics.jsonl", other.path)
    with other.new_checkpoint(8) as path:
        (path / "policy").mkdir()
        (path / "policy" / "weights").write_text("another", encoding="utf-8")
    newest = folder.checkpoints()[0][1]
    shutil.rmtree(newest)
    shutil.copytree(other.path / newest.name, newest)
    found = folder.rewind()
    assert found is not None and found[0] == 4
    assert f"{newest}: belongs to run 'abd', not to run abc" in capsys.readouterr().err


def test_a_policy_of_another_run_is_refused(tmp_path):
    run, other = written(tmp_path), RunFolder(tmp_path, "abd")
    (tmp_path / "weights").mkdir()
    other.path.mkdir()
    other.keep_policy(tmp_path / "weights")
    shutil.copytree(other.path / "policy", run.path / "policy")
    with pytest.raises(Corrupt, match="policy: belongs to run 'abd', not to run abc"):
        read_run(run.path).policy()
    run.keep_policy(tmp_path / "weights")
    assert read_run(run.path).policy() == run.path / "policy"


def test_a_changed_row_from_before_every_checkpoint_is_an_error_and_nothing_changes(folder):
    path = folder.path / "metrics.jsonl"
    damaged = path.read_text(encoding="utf-8").replace('{"update": 3}', '{"update": 7}')
    path.write_text(damaged, encoding="utf-8")
    with pytest.raises(Corrupt, match=r"metrics.jsonl: rows from before checkpoint-8 changed .* remove "):
        folder.rewind()
    assert path.read_text(encoding="utf-8") == damaged


def test_without_a_checkpoint_a_run_starts_over(tmp_path):
    folder = RunFolder(tmp_path, "abc")
    with folder.locked():
        folder.append("metrics", {"update": 1})
        assert folder.rewind() is None
    assert (folder.path / "metrics.jsonl").read_text(encoding="utf-8") == ""


@pytest.mark.parametrize("had, free, left", [(2, 10**6, 2), (2, 50_000, 1), (2, 0, 2), (1, 50_000, 1), (1, 0, 1)])
def test_a_disk_without_room_for_one_more_checkpoint_loses_the_oldest_first(
    folder, monkeypatch, capsys, had, free, left
):
    """Checkpoints have 100,000 bytes. Where that would not make room, none is removed; the newest never is."""
    folder.drop_checkpoints(had)
    for _, path in folder.checkpoints():
        (path / "weights").write_bytes(bytes(100_000))
    monkeypatch.setattr("bepo.store.runs.shutil.disk_usage", lambda path: SimpleNamespace(free=free))
    with folder.new_checkpoint(12, keep=3):
        assert [update for update, _ in folder.checkpoints()] == [8, 4][:left]
    assert capsys.readouterr().err.count("removed, because") == had - left


@pytest.mark.parametrize("free, left", [(10**6, [8, 4]), (50_000, [8]), (5_000, []), (-150_000, [8, 4])])
def test_where_none_must_stay_the_newest_goes_too_but_only_for_room(folder, monkeypatch, capsys, free, left):
    for _, path in folder.checkpoints():
        (path / "weights").write_bytes(bytes(100_000))
    monkeypatch.setattr("bepo.store.runs.shutil.disk_usage", lambda path: SimpleNamespace(free=free))
    with folder.new_checkpoint(12, keep=0):
        assert [update for update, _ in folder.checkpoints()] == left
    assert [update for update, _ in folder.checkpoints()] == [12]
    assert capsys.readouterr().err.count("removed, because") == 2 - len(left)


def test_the_kept_policy_takes_no_space_beside_its_checkpoint(folder):
    source = folder.path / "checkpoint-8" / "policy"
    folder.keep_policy(source)
    kept = folder.path / "policy" / "weights"
    assert kept.read_text(encoding="utf-8") == "8" and kept.samefile(source / "weights")
    folder.drop_checkpoints()
    assert kept.read_text(encoding="utf-8") == "8"


def test_a_checkpoint_that_was_not_finished_does_not_count_and_two_are_kept(folder):
    with pytest.raises(ZeroDivisionError), folder.new_checkpoint(10):
        1 / 0  # noqa: B018
    assert [update for update, _ in folder.checkpoints()] == [8, 4]
    with folder.new_checkpoint(12):
        pass
    assert [update for update, _ in folder.checkpoints()] == [12, 8]
    with folder.new_checkpoint(16, keep=1):
        pass
    assert [update for update, _ in folder.checkpoints()] == [16]


def test_every_flipped_bit_of_a_run_is_noticed(tmp_path):
    path = written(tmp_path).path
    for file in sorted(path.glob("*.json*")):
        whole = file.read_bytes()
        for place in range(len(whole)):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
            with pytest.raises(Corrupt):
                read_run(path)
        file.write_bytes(whole)
    read_run(path)


def test_a_folder_of_an_older_format_is_refused_in_one_line(tmp_path):
    for name in ("a", "b"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.json").write_text(
            json.dumps({"format_version": 1, "run_id": name}), encoding="utf-8"
        )
    with pytest.raises(UserError) as refused:
        refuse_older(tmp_path)
    assert "format 1, this bepo reads 2" in str(refused.value) and "\n" not in str(refused.value)
    newer = {"format_version": FORMAT_VERSION, "run_id": "c"}
    (tmp_path / "runs" / "c").mkdir()
    (tmp_path / "runs" / "c" / "run.json").write_text(json.dumps(newer), encoding="utf-8")
    refuse_older(tmp_path)  # single old runs are named one by one


def test_a_longer_run_goes_on_with_rollouts_and_sessions_but_not_with_transcripts(with_rollouts, capsys):
    """Also after a kill before its checkpoint had its name."""
    with_rollouts.start({"seed": 0}, {"commit": "a"})
    longer = RunFolder(with_rollouts.results, "abd")
    longer.path.mkdir()
    longer.start({"seed": 0}, {"commit": "b"})
    for _ in range(2):
        shutil.rmtree(longer.path / "checkpoint-12", ignore_errors=True)
        longer.continue_from(with_rollouts, 12)
    assert [session["commit"] for session in longer.sessions()] == ["a", "b"]
    assert longer.rewind()[0] == 12 and not capsys.readouterr().err
    assert kept(longer) == ["000001.npz", "000006.npz"] and not (longer.path / "transcripts.jsonl.gz").exists()
