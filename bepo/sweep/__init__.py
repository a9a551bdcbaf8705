"""Plan and run any set of studies: ``python -m bepo.sweep [NAME ...] [tier=... overrides]``."""
