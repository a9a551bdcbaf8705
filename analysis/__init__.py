"""Run records in, paper artefacts out. Reads records only; imports nothing of bepo but ``bepo.record``."""
