import os
import sys

import pytest
from joblib import cpu_count

from bepo.core.errors import UserError
from bepo.core.forks import map_in_forks


def test_results_have_the_order_of_the_values_and_values_need_not_be_picklable():
    values = [lambda number=number: (number, os.getpid()) for number in range(40)]
    results = map_in_forks(lambda value: value(), values)
    assert [number for number, _ in results] == list(range(40))
    assert map_in_forks(str, []) == []
    if sys.platform == "linux" and cpu_count() > 1:
        assert os.getpid() not in {process for _, process in results}


def test_a_fork_may_fork():
    assert map_in_forks(lambda last: sum(map_in_forks(abs, range(-last, 0))), range(3)) == [0, 1, 3]


def test_an_error_of_a_call_is_raised():
    def refuse(number: int) -> int:
        if number == 7:
            raise UserError("seven")
        return number

    with pytest.raises(UserError, match="seven"):
        map_in_forks(refuse, range(20))


def test_the_work_of_a_killed_fork_is_done_here():
    here = os.getpid()

    def kill_forks(number: int) -> int:
        if os.getpid() != here:
            os._exit(1)
        return number

    assert map_in_forks(kill_forks, range(5)) == list(range(5))
