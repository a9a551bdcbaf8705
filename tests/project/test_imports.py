"""What importing a command leaves out. Who may import whom is checked by make lint (contracts in pyproject.toml)."""

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.command import python

ROOT = Path(__file__).parents[2]
SOURCES = [path for package in ("bepo", "analysis") for path in sorted((ROOT / package).rglob("*.py"))]


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def imports_of(node: ast.AST, modules: Mapping[str, Path]) -> Iterator[str]:
    """Yield the modules of ours that the code below a node imports when it runs."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom):
            assert child.module and child.level == 0, "imports are absolute"
            names = (f"{child.module}.{name.name}" for name in child.names)
            yield from (name if name in modules else child.module for name in names)
        elif isinstance(child, ast.Import):
            yield from (name.name for name in child.names)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            yield from (target for other in child.orelse for target in imports_of(other, modules))
        else:
            yield from imports_of(child, modules)


def test_what_a_config_may_be_made_of_is_known_without_torch():
    """``--help`` and the composition of configs import no library that only a model needs."""
    code = "import sys, bepo.train; print({'torch', 'transformers', 'sklearn', 'wandb'} & {*sys.modules})"
    done = python("-c", code)
    assert done.stdout == "set()\n", done.stderr[-3000:]


def test_no_import_that_runs_makes_a_circle():
    """Imports within functions run too; those for type checkers alone do not."""
    modules = {dotted(path).removesuffix(".__init__"): path for path in SOURCES}
    trees = {name: ast.parse(path.read_bytes()) for name, path in modules.items()}
    graph = {name: {*imports_of(tree, modules)} & modules.keys() - {name} for name, tree in trees.items()}
    with pytest.raises(CycleError):
        TopologicalSorter(graph | {"bepo.core.errors": {"bepo.core.plugins"}}).prepare()
    TopologicalSorter(graph).prepare()
