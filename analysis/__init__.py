"""Finished runs in, paper artefacts out. It reads the files of runs and trains nothing."""
