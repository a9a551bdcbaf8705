"""Who may import whom (docs/architecture.md), by import-linter's contracts in pyproject.toml."""

import subprocess
import sys


def test_import_contracts():
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "0 broken" in done.stdout
