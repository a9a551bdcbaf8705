"""A registry refuses plug-ins that it could not tell apart, or that would fail after a training."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from bepo.core.errors import UserError
from bepo.core.registry import Plugin, Registry


class Base(Plugin):
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
