"""``--help`` says what each field means, from its docstring."""

from dataclasses import fields, is_dataclass
from typing import get_type_hints

import pytest

from bepo.core.errors import unknown_choice
from bepo.runs.compose import _suggested
from bepo.runs.config import PLUGINS, Config
from bepo.runs.field_docs import explained, field_docs

HELP = """Train.
== Config ==
Override anything in the config (foo.bar=value)

env:
  name: sokoban
  dim: 6
credit:
  gate_order: post
  name: gated_bepo
seed: 0
study: {}

docs: are elsewhere
"""


def parts(kind):
    yield kind
    for hint in get_type_hints(kind).values():
        for inner in (hint, *getattr(hint, "__args__", ())):
            if isinstance(inner, type) and is_dataclass(inner):
                yield from parts(inner)


KINDS = [*parts(Config), *(cls for plugins in PLUGINS.values() for cls in plugins().values())]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_field_says_what_it_means(kind):
    assert [item.name for item in fields(kind) if item.name not in field_docs(kind)] in ([], ["name"])


def test_a_meaning_stands_beside_its_field_and_nothing_else_changes():
    lines = explained(HELP).splitlines()
    assert f"  dim: 6                          # {field_docs(PLUGINS['env']()['sokoban'])['dim']}" in lines
    assert any(line.startswith("  gate_order: post") and "#" in line for line in lines)
    assert any(line.startswith("seed: 0") and "Training seed" in line for line in lines)
    assert {"  name: sokoban", "docs: are elsewhere", "Train.", "Override anything in the config (foo.bar=value)"} <= {
        *lines
    }


def test_help_without_a_config_is_left_as_it_is():
    assert explained("usage: nothing") == "usage: nothing"


def test_the_nearest_choice_is_suggested():
    assert (
        str(unknown_choice("credit", "gro", ["grpo", "hgpo"]))
        == "unknown credit 'gro'; choices: grpo, hgpo; did you mean grpo?"
    )
    assert str(unknown_choice("credit", "zzz", ["grpo"])) == "unknown credit 'zzz'; choices: grpo"
    many = str(unknown_choice("artefact", "n9", [f"n{i}" for i in range(40)], "a file"))
    assert many.startswith("unknown artefact 'n9'; choices: n9, ") and many.endswith(
        "and 28 more (a file); did you mean n9?"
    )
    told = _suggested("In 'train': Could not find 'credit/gated_bep' Available options in 'credit': gated_bepo grpo")
    assert told == "In 'train': Could not find 'credit/gated_bep'; choices: gated_bepo, grpo; did you mean gated_bepo?"
    assert _suggested("Invalid value 'masc', expected one of ['post', 'mask']").endswith("; did you mean mask?")
    assert _suggested("Could not override 'env.kwargs.a': Key 'a' is not in struct").endswith(
        "; +env.kwargs.a=VALUE adds it"
    )
