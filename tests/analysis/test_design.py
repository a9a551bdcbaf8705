"""What captions say about updates and design, and the figure of the declared claims."""

import numpy as np
import pytest

from analysis.claims.blocks import CLAIMED
from analysis.data.rows import ROW_IN_BLOCKS
from analysis.data.sources import Source
from analysis.data.studies import Studies
from analysis.figures.declared_claims import declared_claims
from analysis.grid.design import design
from analysis.grid.table import Figure
from tests.stored_runs import in_block, write_run

START = "policy.warm_start.seed"


def described(results, *runs):
    for settings, updates in runs:
        write_run(results, "mine", settings, [[1, 0]], updates=updates)
    return design(Source(results).runs())


def one_start(seed, env="sokoban", start=0):
    return {"env.name": env, "seed": seed, START: start}


def test_runs_of_one_start_say_how_many_training_seeds_there_are(tmp_path):
    runs = [(one_start(seed), 3) for seed in range(3)] + [(one_start(0, "webshop"), 5)]
    assert (
        described(tmp_path, *runs) == "Design: Sokoban 3 updates, WebShop 5 from one warm start, 1 to 3 training seeds."
    )


def test_a_start_of_each_training_seed_is_a_block(tmp_path):
    runs = [(in_block(block), 2) for block in (100, 101)] + [({"env.name": "webshop", **in_block(100)}, 4)]
    assert described(tmp_path, *runs) == "Design: Sokoban 2 updates, WebShop 4 in 1 to 2 blocks."


def test_blocks_and_starts_are_told_apart_and_nothing_is_said_without_trainings(tmp_path):
    runs = [(in_block(100), 2), (one_start(0), 4), (one_start(0, start=7), 4), (one_start(1, start=7), 4)]
    said = "Design: Sokoban 2 updates in one block; Sokoban 4 updates from 2 warm starts, 2 training seeds."
    assert described(tmp_path / "both", *runs) == said
    assert described(tmp_path / "bare", ({}, 2)) == "Design: Sokoban 2 updates without a warm start, one training seed."
    assert design([]) == ""


@pytest.mark.slow
def test_the_declared_claims_are_drawn_in_the_colours_of_their_verdicts(tmp_path):
    """Gated-BEPO is far ahead of GRPO in all blocks; of GiGPO by chance."""
    for block in range(100, 116):
        for method, rate in (("grpo", 0.1 + block % 3 / 100), ("gated_bepo", 0.5), ("gigpo", 0.5 + (-1) ** block / 10)):
            at = {"credit.name": method, **in_block(block)}
            write_run(tmp_path, "blocks", at, [[1, 0]], metrics={"train/success": rate})
    source = Source(tmp_path)
    studies = Studies({name: source.study(name, "laptop", ROW_IN_BLOCKS) for name in CLAIMED})
    drawn = declared_claims(studies)
    assert isinstance(drawn, Figure)
    (axis,) = drawn.figure.axes
    labels = [label.get_text() for label in axis.get_yticklabels()]
    dots = [line for line in axis.lines if line.get_marker() == "o"]
    shown = [
        "Sokoban, in training",
        "Gated-BEPO > GRPO",
        "Gated-BEPO > GiGPO",
        "Sokoban, held-out",
        "Gated-BEPO > GRPO",
    ]
    assert labels == shown and [float(np.asarray(dot.get_ydata())[0]) for dot in dots] == [1, 2, 4]
    decided, undecided, _ = dots
    assert decided.get_markerfacecolor() == decided.get_color() and undecided.get_markerfacecolor() == "white"
