"""A registry refuses plug-ins that it could not tell apart, or that would fail after a training."""

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
    with pytest.raises(UserError, match=r"^copy\..*Mine: its name 'mine' is that of original\."):
        registry.register(plugin("copy"))


def test_what_a_plug_in_leaves_out_is_named_at_once():
    class Plain(Base):
        name: str = "plain"

    @dataclass
    class Mute(Base):
        name: str = "mute"

    registry = Registry("bepo.losses", "loss", "loss")
    with pytest.raises(UserError, match="Plain: a plug-in is a dataclass: write @dataclass below @register"):
        registry.register(Plain)
    with pytest.raises(UserError, match=r"Mute: must say its version$"):
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
        (Bare, "Bare: a setting has a default: strength has none"),
    ):
        with pytest.raises(UserError, match=message):
            registry.register(wrong)


def test_a_file_that_forgot_to_register_is_named(tmp_path, monkeypatch):
    files = {
        "__init__": "",
        "forgot": "from plugs import Base\n",
        "helper": "import os\n",
        "_own": "from plugs import Base\n",
    }
    files["known"] = "from plugs import Base, register\n@register\nclass Known(Base): ..."
    (tmp_path / "plugs").mkdir()
    for name, text in files.items():
        (tmp_path / "plugs" / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = Registry("plugs", "plug", "plug")
    assert registry.unregistered("forgot") == tmp_path / "plugs" / "forgot.py"
    assert [registry.unregistered(name) for name in ("helper", "_own", "known", "nothing", "a/b")] == [None] * 5
