"""docs/results.md is what the published runs give."""

import pytest

from analysis.data.sources import Source
from analysis.output.results import PAGE, results
from bepo.store.published import PUBLISHED


@pytest.mark.slow
@pytest.mark.long
def test_the_page_of_results_is_up_to_date(tmp_path):
    text = PAGE.read_text(encoding="utf-8")
    assert text == results(Source(tmp_path, PUBLISHED), "laptop"), "run `python -m analysis results`"
    assert "| Gated-BEPO | 52.7 ± 2.7 | 66.9 ± 5.4 |" in text  # text Sokoban, worked out independently
