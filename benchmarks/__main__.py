"""``python -m benchmarks``: measure the speed of estimators and environments, mostly as ratios within one run.

``--quick`` uses the smallest sizes: it tests that everything runs, and its times mean little.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is imported

import argparse

from benchmarks.alfworld import alfworld
from benchmarks.credit import credit
from benchmarks.lab import lab
from benchmarks.sokoban import sokoban
from benchmarks.webshop import webshop


def main() -> None:
    """Print every measurement."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the smallest sizes, in seconds")
    quick = parser.parse_args().quick
    credit(*[(1, 2), (1, 1)] if quick else [])
    sokoban(*[4, 4] if quick else [])
    webshop(*[4, 4] if quick else [])
    alfworld(*[1, 4, 4] if quick else [])
    lab(*[16, 2, 2, 2] if quick else [])


if __name__ == "__main__":
    main()
