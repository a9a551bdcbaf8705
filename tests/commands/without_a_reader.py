"""``bepo.sweep`` with a standard output that nobody reads."""

import os
import runpy
import sys

reader, writer = os.pipe()
os.close(reader)
os.dup2(writer, 1)
sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
sys.argv[0] = "bepo.sweep"
runpy.run_module("bepo.sweep", run_name="__main__", alter_sys=True)
