"""pass@k and best of k: means over all ways to choose k of the episodes of a task."""

from itertools import combinations
from statistics import fmean

import pytest

from bepo.runs.metrics import of_several

SCORES = {"a": [0.0, 1.0, 0.25, 0.0, 1.0], "b": [0.0, 0.0, 0.5, 0.0, 0.75]}


def test_they_equal_the_means_over_all_choices():
    rows = [
        {"task": task, "success": score == 1, "task_score": score}
        for number in range(5)
        for task, score in ((task, scores[number]) for task, scores in SCORES.items())
    ]
    found = of_several(rows, 5)
    for k in (1, 2, 4):
        choices = [list(combinations(scores, k)) for scores in SCORES.values()]
        best = fmean(fmean(max(chosen) for chosen in of_task) for of_task in choices)
        solved = fmean(fmean(max(chosen) == 1 for chosen in of_task) for of_task in choices)
        assert found["best_of"][str(k)] == pytest.approx(best)
        assert found["pass_at"][str(k)] == pytest.approx(solved)
    assert list(found["pass_at"]) == ["1", "2", "4"]
    assert found["pass_at"]["4"] == pytest.approx(0.5)  # task b is never solved
