"""The contract of all studies. Each check takes the name of a study."""

from __future__ import annotations

from bepo.runs.compose import register_configs
from bepo.runs.config import PAPER_TIERS, identity_of
from bepo.store.runs import run_id
from bepo.sweep.check import check_tuning
from bepo.sweep.studies import compose_study

register_configs()


def check_it_composes_at_every_tier(name: str) -> None:
    """Every cell of a grid, and the search of an Optuna study, is valid at every tier of the paper's models."""
    for tier in PAPER_TIERS:
        study = compose_study(name, [f"tier={tier}"])
        assert study.config.study.question
        check_tuning(study) if study.is_tuning else study.configured


def check_its_cells_are_different_runs(name: str) -> None:
    """No two cells of a grid are the same run."""
    study = compose_study(name, ["tier=smoke"])
    if not study.is_tuning:
        ids = [run_id(identity_of(config)) for _, config in study.configured]
        assert len(set(ids)) == len(ids)
