from pathlib import Path

import pytest

from analysis.data import sources
from bepo.core.places import cache_folder


@pytest.fixture(scope="session")
def rows_of_published_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this machine's store of published runs, which takes half a minute to make and checks itself."""
    folder = tmp_path_factory.mktemp("published") / "runs"
    folder.mkdir()
    for path in cache_folder("runs").glob("*"):
        (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(autouse=True)
def nothing_remembered(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, rows_of_published_runs: Path
) -> None:
    """No test gets an answer that an earlier analysis kept."""
    cache = tmp_path_factory.mktemp("cache")
    (cache / "runs").symlink_to(rows_of_published_runs)
    monkeypatch.setenv("BEPO_CACHE", str(cache))


@pytest.fixture(autouse=True)
def no_published_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests say themselves which published runs there are: those of the repository grow."""
    monkeypatch.setattr(sources, "PUBLISHED", tmp_path / "nothing is published")
