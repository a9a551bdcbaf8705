"""Contract tests for plug-ins: what every estimator, environment, loss and study must satisfy.

``pip install "bepo[testing]"`` brings pytest and hypothesis. A test of a plug-in is three lines.

::

    @pytest.mark.parametrize("check", contract("credit"))
    def test_contract(check):
        check(ToGo)

``check`` takes an estimator's class, an environment with its settings (``Corridor(length=8)``), a loss with its
settings (``bepo.testing.loss.variants`` lists all choices), or the name of a study. It raises ``AssertionError``.
"""

from __future__ import annotations

import importlib
from typing import Any

from bepo.core.errors import unknown_choice

GROUPS = ("credit", "env", "loss", "study")


def contract(group: str) -> list[Any]:
    """Return the checks of a group as parameters of pytest: functions of one argument. Raises ``UserError``."""
    import pytest

    if group not in GROUPS:
        raise unknown_choice("group of contract tests", group, GROUPS)
    module = importlib.import_module(f"{__name__}.{group}")
    checks = {name: item for name, item in vars(module).items() if getattr(item, "__module__", "") == module.__name__}
    return [pytest.param(checks[name], id=name.removeprefix("check_")) for name in checks if name.startswith("check_")]
