"""Who may import whom (docs/architecture.md), by import-linter's contracts in pyproject.toml."""

import subprocess
import sys


def test_import_contracts():
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"],
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "0 broken" in done.stdout


def test_what_a_config_may_be_made_of_is_known_without_torch():
    """``--help`` and the composition of configs import no library that only a model needs."""
    code = "import sys, bepo.train; print({'torch', 'transformers', 'sklearn', 'wandb'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8")
    assert done.stdout == "set()\n", done.stderr[-3000:]
