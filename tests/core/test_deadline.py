"""A call that hangs is not waited for longer than was said."""

import threading

import pytest

from bepo.core.deadline import call_with_timeout


@pytest.mark.parametrize("seconds", [60, None])
def test_a_call_returns_what_it_would_return_here(seconds):
    assert call_with_timeout(seconds, lambda: 3) == 3


@pytest.mark.parametrize("error", [KeyError("its own"), SystemExit(2), TimeoutError("its own")], ids=repr)
def test_a_call_raises_what_it_would_raise_here(error):
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as found:
        call_with_timeout(60, fail)
    assert found.value is error


def test_a_call_that_hangs_is_given_up():
    never = threading.Event()
    with pytest.raises(TimeoutError, match=r"^no answer for 0\.01 seconds$"):
        call_with_timeout(0.01, never.wait)
    never.set()
