"""What this machine can use, what it lacks, and the one command that mends each: ``python -m bepo.doctor``."""
