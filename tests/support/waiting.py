"""Wait for something to become true, and say what did not."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    predicate: Callable[[], T],
    timeout: float = 10,
    message: str | Callable[[], str] = "the condition",
    *,
    every: float = 0.02,
) -> T:
    """Ask `predicate` until its answer is truthy, and return that answer.

    `message` names what was waited for; a callable is asked only when time ran out.
    """
    deadline = time.monotonic() + timeout
    while not (answer := predicate()):
        if time.monotonic() >= deadline:
            what = message() if callable(message) else message
            raise TimeoutError(f"waited {timeout:g} s in vain for {what}")
        time.sleep(every)
    return answer
