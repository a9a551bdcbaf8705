"""On the path of a command, this ends its environment worker once, at the second step of a training episode.

Python imports the file when it starts, in each process. ``BEPO_TEST_DIES`` names the file that says it has happened.
"""

import os
import sys
from pathlib import Path


class _Dies:
    """An import hook that does nothing but replace ``EpisodeBatch.step`` before the worker's own code is imported."""

    def find_spec(self, name, path=None, target=None):
        """Return None, so that the usual finders import the module."""
        if name == "bepo.training.verl.episodes":
            sys.meta_path.remove(self)
            from bepo.rollouts.collect import EpisodeBatch

            plain = EpisodeBatch.step

            def step(episodes, prompts, samples):
                row = episodes.rows[-1] if episodes.rows else {}
                if row.get("t") == 0 and row.get("traj") == 2:  # an evaluation has no third trajectory of a task
                    try:
                        Path(os.environ["BEPO_TEST_DIES"]).touch(exist_ok=False)
                        os._exit(1)
                    except FileExistsError:
                        pass
                return plain(episodes, prompts, samples)

            EpisodeBatch.step = step
        return None


if "BEPO_TEST_DIES" in os.environ:
    sys.meta_path.insert(0, _Dies())
