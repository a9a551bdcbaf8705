"""Plug-ins from outside: entry points of installed packages, files, folders and modules."""

import sys
from pathlib import Path

import pytest

from analysis.grid import artefact
from bepo.core import plugins
from bepo.core.errors import UserError
from bepo.core.places import EXPERIMENTS
from bepo.losses import losses
from bepo.runs import objectives
from bepo.runs.compose import register
from bepo.sweep import composition

LOSS = """
from dataclasses import dataclass
from bepo.losses import register
from bepo.losses.ppo_clip import PPOClip

@register
@dataclass
class Mine(PPOClip):
    name: str = "{name}"
"""
OBJECTIVE = """
from bepo.runs.objectives import objective

@objective("minimize")
def last_loss(run):
    return run.metrics()[-1]["train/policy_loss"]
"""
TABLE = """
from analysis.grid.artefact import artefact
from analysis.grid.table import Table

@artefact("my-table", "table", study="gate_form")
def my_table(study):
    return Table("", [], [])
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder. What is imported from it is forgotten afterwards."""
    artefact.artefacts()  # registers ours for good
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(plugins.VARIABLE, "")
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(plugins, "_imported", {})
    monkeypatch.setattr(plugins, "_asked", set())
    monkeypatch.setattr(losses, "_known", {**losses()})
    monkeypatch.setattr(objectives, "OBJECTIVES", {**objectives.OBJECTIVES})
    monkeypatch.setattr(artefact, "REGISTRY", {**artefact.REGISTRY})
    before = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_loose_file_is_noted_by_its_digest(folder, monkeypatch):
    file = write(folder / "loose_loss.py", LOSS.format(name="loose"))
    plugins.use_plugins(["plugins=loose_loss.py", "credit=grpo"])
    assert "loose" in losses()
    (noted,) = plugins.imported_plugins()
    assert (noted["name"], noted["package"], noted["version"]) == ("loose_loss", None, None)
    monkeypatch.setattr(plugins, "_asked", set())
    write(file, file.read_text(encoding="utf-8") + "\n# changed")
    plugins.import_plugins()  # from BEPO_PLUGINS, which children inherit
    (changed,) = plugins.imported_plugins()
    assert changed["digest"] != noted["digest"]


def test_an_installed_package_is_found_by_its_entry_point(folder, monkeypatch):
    site = folder / "site"
    write(site / "their_package" / "__init__.py", "")
    write(site / "their_package" / "losses.py", LOSS.format(name="theirs"))
    write(site / "their_package" / "objectives.py", OBJECTIVE)
    write(site / "their_package" / "tables.py", TABLE)
    write(site / "their_package" / "_private.py", "raise ValueError")
    write(site / "their_package" / "conf" / "credit" / "preset.yaml", "")
    write(
        site / "their_package-1.2.dist-info" / "METADATA", "Metadata-Version: 2.1\nName: their-package\nVersion: 1.2\n"
    )
    write(site / "their_package-1.2.dist-info" / "entry_points.txt", "[bepo.plugins]\nany = their_package\n")
    monkeypatch.syspath_prepend(site)
    assert "theirs" in losses()
    (noted,) = plugins.imported_plugins()
    assert (noted["name"], noted["package"], noted["version"]) == ("their_package", "their-package", "1.2")
    assert objectives.checked_objectives(["last_loss"]) == ["last_loss"]
    assert "their_package.tables" not in sys.modules  # plotting libraries are slow to import
    assert "my-table" in artefact.artefacts()
    assert plugins.plugin_folders("conf") == [site / "their_package" / "conf"]


@pytest.mark.parametrize(
    "given, problem",
    [
        ("nowhere.py", "plugins=.*nowhere.py: no such file or folder"),
        ("./empty", "plugins=.*empty: a folder must be a package, with a file __init__.py"),
        ("no_module_of_this_name", "plug-in no_module_of_this_name: cannot be imported .ModuleNotFoundError"),
        ("broken.py", "plug-in broken: cannot be imported .ZeroDivisionError"),
        ("ends.py", r"plug-in ends: cannot be imported \(SystemExit: 0\)"),
        ("random.py", "plugins=.*random.py: the name random belongs to .*; rename the plug-in"),
        ("taken.py", "taken.Mine: name 'ppo_clip' is taken by bepo.losses.ppo_clip.PPOClip"),
    ],
)
def test_what_cannot_be_imported_is_one_line_and_can_be_tried_again(folder, given, problem):
    (folder / "empty").mkdir()
    write(folder / "broken.py", "1 / 0")
    write(folder / "ends.py", "raise SystemExit(0)")
    write(folder / "random.py", "")
    write(folder / "taken.py", LOSS.format(name="ppo_clip"))
    losses()
    for _ in range(2):
        with pytest.raises(UserError, match=problem) as error:
            plugins.use_plugins([f"plugins={given}"])
        assert "\n" not in str(error.value)
        sys.modules.pop("taken", None)
    assert not plugins.imported_plugins()
    losses()  # goes on without it


@pytest.mark.parametrize(
    "file, problem",
    [
        (
            "conf/credit/gigpo_paper.yaml",
            "preset 'credit/gigpo_paper' is taken by .*conf/credit/gigpo_paper.yaml; rename",
        ),
        ("conf/tier/smoke.yaml", "preset 'tier/smoke' is taken by"),
        ("conf/train.yaml", "preset 'train' is taken by"),
        ("experiments/main_sokoban.yaml", "study 'main_sokoban' is taken by"),
        ("conf/credit/grpo.yaml", "bepo.credit.grpo.GRPO: name 'grpo' is taken by .*pack.conf.credit.grpo.yaml"),
    ],
)
def test_presets_and_studies_with_a_taken_name_are_refused(folder, file, problem):
    write(folder / "pack" / "__init__.py", "")
    write(folder / "pack" / file, "study: {name: main_sokoban}")
    for _ in range(2):
        with pytest.raises(UserError, match=problem):
            register(["plugins=pack"])


def test_two_plug_ins_cannot_share_the_name_of_a_study(folder):
    for name in ("first", "second"):
        write(folder / name / "__init__.py", "")
        write(folder / name / "experiments" / "mine.yaml", "")
    with pytest.raises(UserError, match=r"plug-in second: study 'mine' is taken by .*first.experiments.mine.yaml"):
        register(["plugins=first:second"])


def test_a_class_with_the_name_of_a_preset_is_refused(folder):
    """Hydra would compose the preset, and the class would be ignored."""
    write(folder / "named.py", LOSS.format(name="gspo_agents"))
    with pytest.raises(UserError, match=r"named.Mine: name 'gspo_agents' is taken by .*conf/loss/gspo_agents.yaml"):
        register(["plugins=named.py"])


def test_two_classes_of_one_file_cannot_share_a_name(folder):
    write(folder / "twice.py", LOSS.format(name="both") + LOSS.format(name="both").replace("Mine", "Other"))
    with pytest.raises(UserError, match=r"twice.Other: name 'both' is taken by twice.Mine"):
        register(["plugins=twice.py"])


def test_plug_ins_are_part_of_what_a_cached_config_depends_on(folder, monkeypatch):
    monkeypatch.setenv("BEPO_CACHE", str(folder / "cache"))
    composition._sources.cache_clear()
    register([])
    names = set()
    for text in ("", "x = 1"):
        write(folder / "loose_part.py", text)
        monkeypatch.setattr(plugins, "_asked", set())
        plugins.use_plugins(["plugins=loose_part.py"])
        composition.composed(EXPERIMENTS, "main_sokoban", ["tier=smoke"])
        names |= {path.name for path in (folder / "cache").rglob("*") if path.is_file()}
    composition._sources.cache_clear()
    assert len(names) == 2
