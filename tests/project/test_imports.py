"""What importing a command leaves out. Who may import whom is checked by make lint (contracts in pyproject.toml)."""

import subprocess
import sys


def test_what_a_config_may_be_made_of_is_known_without_torch():
    """``--help`` and the composition of configs import no library that only a model needs."""
    code = "import sys, bepo.train; print({'torch', 'transformers', 'sklearn', 'wandb'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8")
    assert done.stdout == "set()\n", done.stderr[-3000:]
