"""What an analysis keeps: nothing of it is used once its runs changed, or if it is damaged."""

import pytest

from analysis.data.cache import cached, load, save
from analysis.data.sources import Source
from analysis.grid import artefact
from analysis.grid.artefact import artefacts
from analysis.grid.table import Table
from analysis.output.text import statistics, to_csv
from bepo.core.places import cache_folder
from bepo.store.archive import write_archive
from bepo.store.published import PublishedRuns
from bepo.store.run_files import read_run
from tests.stored_runs import damage, write_run

LABELS = ("sokoban-main", "gate-ablation")


@pytest.fixture
def made(monkeypatch):
    """The labels of the tables that are built."""
    labels, build = [], artefact._made

    def noted(item, *arguments):
        labels.append(item.label)
        return build(item, *arguments)

    monkeypatch.setattr(artefact, "_made", noted)
    return labels


def tables(source: Source) -> list[str]:
    """Two tables as text, with the runs behind their numbers."""
    found = [artefacts("table")[label].make(source, "laptop")[1] for label in LABELS]
    return [to_csv(table) + statistics(table.entries) for table in found if isinstance(table, Table)]


def write(results, label, seed, success=1):
    study = next(iter(artefacts("table")[label].studies))
    settings = {"seed": seed, "env.name": "sokoban" if label == LABELS[0] else "webshop"}
    return write_run(results, study, settings, ((success, 0, 0, 0), (1, 1, 0, 0)))


def test_a_table_is_built_again_only_if_its_own_runs_change(tmp_path, made):
    for label in LABELS:
        write(tmp_path, label, 0)
    first = tables(Source(tmp_path))
    assert made == [*LABELS]
    assert tables(Source(tmp_path)) == first and made == [*LABELS]
    write(tmp_path, LABELS[0], 1, success=0)
    second = tables(Source(tmp_path))
    assert made == [*LABELS, LABELS[0]] and second[0] != first[0] and second[1] == first[1]
    assert tables(Source(tmp_path, seeds=[1])) != second and made == [*LABELS, LABELS[0], *LABELS]


def test_a_published_archive_that_changes_is_noticed_even_with_its_size_and_time(tmp_path, made):
    published = PublishedRuns(tmp_path / "published" / "laptop")
    for label in LABELS:
        folder = write(tmp_path / "results", label, 0)
        write_archive(read_run(folder.path), published.archive(folder.id))
        study = next(iter(artefacts("table")[label].studies))
        published.note_cells(study, [{"overrides": [], "varying": [], "run_id": folder.id}])

    def read() -> list[str]:
        return tables(Source(tmp_path / "none", tmp_path / "published"))

    first = read()
    assert made == [*LABELS] and read() == first and made == [*LABELS]
    damage(published.archive(folder.id))
    found = read()
    assert found[0] == first[0] and found[1] != first[1] and made == [*LABELS, LABELS[1]]


def test_a_damaged_answer_and_one_that_others_can_write_are_made_again(tmp_path, made):
    write(tmp_path, LABELS[0], 0)
    first, folder = tables(Source(tmp_path)), cache_folder("analysis")
    for path in folder.iterdir():
        data = bytearray(path.read_bytes())
        data[-20] ^= 1
        path.write_bytes(data)
    assert tables(Source(tmp_path)) == first and made == 2 * [*LABELS]
    folder.chmod(0o777)
    assert tables(Source(tmp_path)) == first and made == 3 * [*LABELS]


def test_what_cannot_be_kept_is_not_kept(tmp_path):
    save(lambda: None, "key")
    assert load(Source(tmp_path), "key") is None
    assert cached(lambda: {"a": [1.5]}, Source(tmp_path), "key") == {"a": [1.5]}
    assert load(Source(tmp_path), "key") == {"a": [1.5]}
