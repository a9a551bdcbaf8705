"""A time limit for calls that may hang."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def call_with_timeout(seconds: float | None, call: Callable[[], T]) -> T:
    """Return or raise as ``call`` does. ``seconds`` is the time limit; None waits for ever.

    Raises ``TimeoutError`` after the limit. The call then continues in a daemon thread, which does not keep the program
    from ending.
    """
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        return future.result(seconds)
    except TimeoutError as error:
        if future.done():  # a TimeoutError of the call itself, or an answer just after the limit
            return future.result()
        raise TimeoutError(f"no answer for {seconds:g} seconds") from error
