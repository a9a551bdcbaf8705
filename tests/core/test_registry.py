"""A registry refuses plug-ins that it could not tell apart, or that would fail after a training."""

import importlib
import sys
from dataclasses import dataclass
from typing import ClassVar, Literal

import pytest

from bepo.core.errors import UserError
from bepo.core.registry import Plugin, Registry


class Base(Plugin):
    group = "loss"
    version: ClassVar[int]


def plugin(module: str) -> type[Base]:
    @dataclass
    class Mine(Base):
        name: str = "mine"
        version: ClassVar[int] = 1

    Mine.__module__ = module
    return Mine


def test_a_name_is_that_of_one_file():
    registry = Registry("bepo.losses", "loss", "loss")
    registry.register(plugin("original"))
    registry.register(plugin("original"))  # the module was loaded again
    with pytest.raises(UserError, match=r"^copy\..*Mine: name 'mine' is taken by original\."):
        registry.register(plugin("copy"))


def test_what_a_plug_in_leaves_out_is_named_at_once():
    class Plain(Base):
        name: str = "plain"

    @dataclass
    class Mute(Base):
        name: str = "mute"

    registry = Registry("bepo.losses", "loss", "loss")
    with pytest.raises(UserError, match="Plain: must be a dataclass"):
        registry.register(Plain)
    with pytest.raises(UserError, match=r"Mute: .*version$"):
        registry.register(Mute)


def test_what_a_plug_in_cannot_be_is_named_at_once():
    @dataclass
    class Stranger(Plugin):
        name: str = "stranger"

    @dataclass
    class Other(Base):
        name: Literal["this"] = "that"  # pyright: ignore[reportAssignmentType]
        version: ClassVar[int] = 1

    @dataclass
    class Bare(Base):
        strength: float
        name: str = "bare"
        version: ClassVar[int] = 1

    registry = Registry("bepo.losses", "loss", "loss")
    for wrong, message in (
        (Stranger, "Stranger: must derive from the base class of bepo.losses"),
        (Other, "unknown name of .*Other 'that'; choices: this"),
        (Bare, "Bare: .*strength"),
    ):
        with pytest.raises(UserError, match=message):
            registry.register(wrong)


@pytest.fixture
def plugs(tmp_path, monkeypatch):
    """An empty package, and how a file is written into it. Its files find ``register`` in ``plugs.registry``."""
    folder = tmp_path / "plugs"
    folder.mkdir()
    (folder / "__init__.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder, Registry("plugs", "plug", "plug")
    for name in [name for name in sys.modules if name.partition(".")[0] == "plugs"]:
        del sys.modules[name]


PLUGIN = """
from dataclasses import dataclass
from bepo.core.registry import Plugin
import plugs
@plugs.register{comment}
@dataclass
class Own(Plugin):
    group = "plug"
    name: str = "{name}"
"""


@pytest.mark.parametrize("comment", ["", "  # my first plug-in"])
def test_a_file_registers_its_plug_in_whatever_stands_behind_the_decorator(plugs, comment):
    folder, registry = plugs
    importlib.import_module("plugs").register = registry.register
    (folder / "own.py").write_text(PLUGIN.format(comment=comment, name="own"), encoding="utf-8")
    (folder / "_helper.py").write_text("raise RuntimeError('a helper is not imported')", encoding="utf-8")
    assert list(registry()) == ["own"]


def test_a_file_that_forgot_to_register_is_named(plugs):
    folder, registry = plugs
    importlib.import_module("plugs").register = registry.register
    (folder / "own.py").write_text(PLUGIN.format(comment="", name="own"), encoding="utf-8")
    (folder / "forgot.py").write_text("", encoding="utf-8")
    (folder / "_helper.py").write_text("", encoding="utf-8")
    assert registry.unregistered("forgot") == "plugs.forgot"
    assert [registry.unregistered(name) for name in ("_helper", "own", "nothing", "a/b")] == [None] * 4
