import json

import pytest

from bepo.store.files import Corrupt
from bepo.store.runs import Busy, RunFolder, read_run, run_id


def written(tmp_path, **facts):
    folder = RunFolder(tmp_path, "abc")
    with folder.locked():
        folder.start({"seed": 0}, {"commit": None})
        folder.append("metrics", {"update": 1, "x": 0.5}, {"update": 2, "x": float("nan")})
        folder.append("episodes", {"update": 0, "success": True})
        folder.complete({"tier": "smoke", **facts})
    return folder


def test_round_trip(tmp_path):
    found = read_run(written(tmp_path, note=float("inf")).path)
    assert found.id == "abc" and found.config == {"seed": 0} and found.facts["note"] is None
    assert found.metrics() == [{"update": 1, "x": 0.5}, {"update": 2, "x": None}]
    assert found.episodes() == [{"update": 0, "success": True}]


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda p: (p / "run.json").unlink(), "incomplete"),
        (lambda p: (p / "run.json").write_text("{"), "not a run file"),
        (lambda p: (p / "run.json").write_text("[]"), "not a run file"),
        (lambda p: (p / "metrics.jsonl").unlink(), "metrics.jsonl: missing"),
        (lambda p: (p / "config.json").write_text("{}"), "config.json: changed"),
        (lambda p: (p / "episodes.jsonl").open("a").write("{}\n"), "episodes.jsonl: changed"),
    ],
)
def test_damage_is_named(tmp_path, damage, message):
    folder = written(tmp_path)
    damage(folder.path)
    with pytest.raises(Corrupt, match=message):
        read_run(folder.path)


def test_foreign_versions_are_refused(tmp_path):
    path = written(tmp_path).path / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format_version": 9}))
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


def test_rewind_drops_what_came_after_the_checkpoint_and_a_torn_line(tmp_path):
    folder = RunFolder(tmp_path, "abc")
    with folder.locked():
        folder.append("metrics", *({"update": u} for u in range(1, 5)))
        with folder.new_checkpoint(4):
            pass
        folder.append("metrics", {"update": 5})
        folder.append("episodes", {"update": 4})
        with (folder.path / "metrics.jsonl").open("a") as file:
            file.write('{"update": 6, "tr')
        folder.rewind()
        folder.append("metrics", {"update": 5})
    lines = (folder.path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["update"] for line in lines] == [1, 2, 3, 4, 5]
    assert (folder.path / "episodes.jsonl").read_text() == ""


def test_rows_lost_from_before_the_checkpoint_are_an_error_and_nothing_changes(tmp_path):
    folder = RunFolder(tmp_path, "abc")
    with folder.locked():
        folder.append("metrics", *({"update": u} for u in range(1, 9)))
        with folder.new_checkpoint(8):
            pass
        path = folder.path / "metrics.jsonl"
        damaged = path.read_text().replace('{"update": 3}', '{"upd')
        path.write_text(damaged)
        with pytest.raises(Corrupt, match="2 readable rows, the checkpoint counts 8"):
            folder.rewind()
        assert path.read_text() == damaged


def test_rewind_without_a_checkpoint_starts_over(tmp_path):
    folder = RunFolder(tmp_path, "abc")
    with folder.locked():
        folder.append("metrics", {"update": 1})
        folder.rewind()
    assert (folder.path / "metrics.jsonl").read_text() == ""


def test_a_checkpoint_that_was_not_finished_does_not_count(tmp_path):
    folder = RunFolder(tmp_path, "abc")
    with folder.locked():
        with folder.new_checkpoint(3) as path:
            (path / "weights").write_text("3")
        with pytest.raises(ZeroDivisionError), folder.new_checkpoint(4):
            1 / 0  # noqa: B018
        update, path = folder.checkpoint()
        assert update == 3 and (path / "weights").read_text() == "3"
        with folder.new_checkpoint(10) as path:
            (path / "weights").write_text("10")
        assert folder.checkpoint()[0] == 10 and len(list(folder.path.glob("checkpoint-*"))) == 1
