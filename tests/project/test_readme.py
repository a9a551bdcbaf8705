"""The first screen of the README: its estimator runs as it is printed."""

import re

import pytest

from bepo.core.places import ROOT
from tests.command import Command

pytestmark = pytest.mark.slow


def test_the_estimator_of_the_readme_gives_the_advantages_of_the_tutorial(tmp_path, monkeypatch):
    code = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL | re.M)[0]
    (tmp_path / "togo.py").write_text(code, encoding="utf-8")
    monkeypatch.setenv("BEPO_PLUGINS", str(tmp_path / "togo.py"))
    command = Command("bepo.credit", "togo", "--rollouts", "tests/data/credit_golden.json", folder=ROOT)
    printed, _ = command.communicate()
    tutorial = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```text\n(task,.*?)^```", tutorial, re.DOTALL | re.M)
    assert printed.startswith(shown)
