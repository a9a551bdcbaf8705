"""The command ``bepo sweep``: plan and run studies (grids and Optuna)."""

import sys

from bepo import Command

sys.modules[__name__].__class__ = Command
