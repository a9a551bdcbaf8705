"""A built wheel works in an empty folder, in an environment that has the dependencies and no checkout."""

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import bepo
from tests.command import SMALLEST

ROOT = Path(__file__).parents[2]
TINY = (*SMALLEST, "updates=1", "evaluation.seeds=1")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """An environment with the wheel. It finds the dependencies in this one, but not the editable bepo."""
    place = tmp_path_factory.mktemp("fresh") / "env"
    venv.create(place, with_pip=False)
    (site,) = place.glob("lib/python*/site-packages")
    ours = [path for path in sys.path if path.endswith("site-packages")]
    (site / "dependencies.pth").write_text("\n".join(ours), encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--python", place / "bin" / "python", "install"]
    subprocess.run([*pip, "-q", "--no-deps", "--no-index", "--force-reinstall", wheel], check=True)
    return place / "bin"


def test_the_wheel_has_every_data_file_that_is_read(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist()}
    for folder in ("conf", "experiments", "paper/reported"):
        for path in (ROOT / folder).rglob("*.*"):
            assert f"bepo/_data/{path.relative_to(ROOT)}" in names
    for folder in ("bepo", "analysis"):
        tracked = subprocess.check_output(["git", "ls-files", folder], cwd=ROOT, encoding="utf-8")
        assert {*tracked.split()} <= names
    assert not [name for name in names if name.startswith(("tests/", "conf/", "paper/", "results/"))]


@pytest.mark.long
def test_commands_work_in_an_empty_folder(installed, tmp_path):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}

    def run(*command: str) -> str:
        done = subprocess.run(
            [installed / command[0], *command[1:]],
            cwd=tmp_path,
            env=environment | {"BEPO_CACHE": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            encoding="utf-8",
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    assert run("bepo", "--version") == f"bepo {bepo.__version__}\n"
    assert "success" in run("bepo", "train", *TINY)
    assert "2 of 2 runs complete" in run("bepo", "sweep", "main_sokoban_text", *TINY, "seed=0", "credit=grpo,rloo")
    runs = list(tmp_path.glob("results/runs/*/run.json"))
    assert len(runs) == 3
    assert {
        session["commit"] for path in runs for session in json.loads(path.read_text(encoding="utf-8"))["sessions"]
    } == {None}
    assert Path(run("bepo", "view").splitlines()[-1]).is_relative_to("results")
    code = "import bepo; print(bepo.__file__, len(bepo.load('main_sokoban_text').runs))"
    place, count = run("python", "-c", code).split()
    assert Path(place).is_relative_to(installed.parent) and count == "2"
    run("bepo", "analysis", "sokoban-main")
    assert (tmp_path / "paper" / "tables" / "sokoban-main.smoke.md").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"results", "paper", "cache"}
