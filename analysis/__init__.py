"""Finished runs in, paper artefacts out. It reads the files of runs and trains nothing."""

import bepo  # noqa: F401 (Ctrl-C while the rest is imported)
