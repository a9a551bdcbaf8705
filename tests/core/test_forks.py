import os

import pytest

from bepo.core.errors import UserError
from bepo.core.forks import map_in_forks


def test_results_have_the_order_of_the_values_and_values_need_not_be_picklable():
    values = [lambda number=number: (number, os.getpid()) for number in range(40)]
    results = map_in_forks(lambda value: value(), values)
    assert [number for number, _ in results] == list(range(40))
    assert map_in_forks(str, []) == []


def test_an_error_of_a_call_is_raised():
    def refuse(number: int) -> int:
        if number == 7:
            raise UserError("seven")
        return number

    with pytest.raises(UserError, match="seven"):
        map_in_forks(refuse, range(20))
