"""The first screen of the README: its estimator runs as it is printed."""

import re

import pytest

from bepo.core.places import ROOT
from tests.command import python

pytestmark = pytest.mark.slow


def test_the_estimator_of_the_readme_gives_the_advantages_of_the_tutorial(tmp_path):
    code = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL | re.M)[0]
    (tmp_path / "togo.py").write_text(code, encoding="utf-8")
    command = ("-m", "bepo.credit", "togo", "--rollouts", "tests/data/credit_golden.json")
    done = python(*command, BEPO_PLUGINS=str(tmp_path / "togo.py"))
    tutorial = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```text\n(task,.*?)^```", tutorial, re.DOTALL | re.M)
    assert done.returncode == 0 and done.stdout.startswith(shown), done.stderr
