"""Exploration of stored runs: tidy tables, episodes with every estimator's advantages, and the pages of bepo.view."""
