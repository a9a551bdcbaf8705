from pathlib import Path

import pytest

from analysis.data import sources


@pytest.fixture(autouse=True)
def nothing_remembered(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test gets an answer that an earlier analysis kept."""
    monkeypatch.setenv("BEPO_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(autouse=True)
def no_published_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests say themselves which published runs there are: those of the repository grow."""
    monkeypatch.setattr(sources, "PUBLISHED", tmp_path / "nothing is published")
