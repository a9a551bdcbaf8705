"""The first step of an episode is shown like the others."""

import pytest

from bepo.explore.episodes import first_state

BOARD = "####\n#P_#\n#XO#\n####"


@pytest.mark.parametrize(
    "prompt, following, shown",
    [
        ("now # # # # # P _ # # X O # # # # # step 0 <act>", BOARD, BOARD),
        ("now # # # # # P _ # step 0 <act>", BOARD, "now # # # # # P _ # step 0 <act>"),  # another size
        ("now you are in a room . step 0 <act>", "You see a key.", "now you are in a room . step 0 <act>"),
        ("You are an agent.", BOARD, "You are an agent."),
    ],
)
def test_a_board_in_one_line_gets_the_lines_of_the_next_one(prompt, following, shown):
    assert first_state({"prompt": prompt, "observation": following}) == shown
