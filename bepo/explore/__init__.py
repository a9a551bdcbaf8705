"""Stored runs for people to explore: tidy tables, episodes with every estimator's advantages, and the viewer's page."""
