"""The first screen of the README: its estimator runs as it is printed."""

import os
import re
import subprocess
import sys

import pytest

from bepo.core.places import ROOT

pytestmark = pytest.mark.slow


def test_the_estimator_of_the_readme_gives_the_advantages_of_the_tutorial(tmp_path):
    code = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL | re.M)[0]
    (tmp_path / "togo.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "-m", "bepo.credit", "togo", "--rollouts", "tests/data/credit_golden.json"]
    environment = {**os.environ, "BEPO_PLUGINS": str(tmp_path / "togo.py")}
    printed = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, check=True, encoding="utf-8"
    ).stdout
    tutorial = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```text\n(task,.*?)^```", tutorial, re.DOTALL | re.M)
    assert printed.startswith(shown)
