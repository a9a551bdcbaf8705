"""What importing a command leaves out. Who may import whom is checked by make lint (contracts in pyproject.toml)."""

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest

from tests.command import python


def test_what_a_config_may_be_made_of_is_known_without_torch():
    """``--help`` and the composition of configs import no library that only a model needs."""
    code = "import sys, bepo.train; print({'torch', 'transformers', 'sklearn', 'wandb'} & {*sys.modules})"
    done = python("-c", code)
    assert done.stdout == "set()\n", done.stderr[-3000:]


def test_no_import_that_runs_makes_a_circle():
    """Imports within functions run too; those for type checkers alone do not."""
    imports = grimp.build_graph("bepo", "analysis", exclude_type_checking_imports=True, cache_dir=None)
    graph = {module: imports.find_modules_directly_imported_by(module) for module in imports.modules}
    with pytest.raises(CycleError):
        TopologicalSorter(graph | {"bepo.core.errors": {"bepo.core.plugins"}}).prepare()
    TopologicalSorter(graph).prepare()
