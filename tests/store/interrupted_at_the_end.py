"""``bepo.train`` with a Ctrl-C that arrives while the complete run is handed over to W&B."""

import os
import runpy
import signal
import sys

from bepo.store.tracking import wandb as tracking


class Tracker(tracking.Tracker):
    """The sink of W&B, interrupted at its end."""

    def finish(self, *arguments):
        os.kill(os.getpid(), signal.SIGINT)
        super().finish(*arguments)


tracking.Tracker = Tracker
sys.argv[0] = "bepo.train"
runpy.run_module("bepo.train", run_name="__main__", alter_sys=True)
