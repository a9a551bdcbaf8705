"""``python -m benchmarks``: measure the speed of estimators and environments, mostly as ratios within one run."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is imported

from benchmarks.alfworld import alfworld
from benchmarks.credit import credit
from benchmarks.sokoban import sokoban
from benchmarks.webshop import webshop

if __name__ == "__main__":
    credit()
    sokoban()
    webshop()
    alfworld()
