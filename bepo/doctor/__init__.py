"""Check what this machine can use, and print the command that fixes each problem: ``python -m bepo.doctor``."""
