"""What importing a command leaves out. Who may import whom is checked by make lint (contracts in pyproject.toml)."""

from tests.command import python


def test_what_a_config_may_be_made_of_is_known_without_torch():
    """``--help`` and the composition of configs import no library that only a model needs."""
    code = "import sys, bepo.train; print({'torch', 'transformers', 'sklearn', 'wandb'} & {*sys.modules})"
    done = python("-c", code)
    assert done.stdout == "set()\n", done.stderr[-3000:]
