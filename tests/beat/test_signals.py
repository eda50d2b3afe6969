"""Signals wait for the end of a pass, and nothing else about them changes."""

import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from celery_dbbeat.beat.signals import deferred_signals

DEFERRED = [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP]
Handler = Callable[[int, FrameType | None], object]


@pytest.fixture(autouse=True)
def handlers_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in [*DEFERRED, signal.SIGUSR1]}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def seen() -> list[int]:
    """The signals handled so far."""
    return []


@pytest.fixture
def handler(seen: list[int]) -> Handler:
    """Handles all of them."""

    def handle(number: int, _: FrameType | None) -> None:
        seen.append(number)

    for number in DEFERRED:
        signal.signal(number, handle)
    return handle


def block_with(number: signal.Signals, then: Callable[[], object]) -> None:
    with deferred_signals():
        signal.raise_signal(number)
        then()


@pytest.mark.parametrize("number", DEFERRED)
def test_a_signal_is_handled_at_the_end(
    number: signal.Signals, handler: Handler, seen: list[int]
) -> None:
    with deferred_signals():
        signal.raise_signal(number)
        assert seen == []
    assert seen == [number]


def test_several_are_handled_in_the_order_they_came(handler: Handler, seen: list[int]) -> None:
    came = [signal.SIGTERM, signal.SIGHUP, signal.SIGTERM]
    with deferred_signals():
        for number in came:
            signal.raise_signal(number)
    assert seen == came


def test_without_a_signal_nothing_is_handled_and_the_handlers_are_back(
    handler: Handler, seen: list[int]
) -> None:
    with deferred_signals():
        assert all(signal.getsignal(number) is not handler for number in DEFERRED)
    assert seen == []
    assert all(signal.getsignal(number) is handler for number in DEFERRED)


def test_afterwards_a_signal_is_handled_at_once(handler: Handler, seen: list[int]) -> None:
    with deferred_signals():
        pass
    signal.raise_signal(signal.SIGTERM)
    assert seen == [signal.SIGTERM]


def test_the_end_may_be_an_error_of_the_block(handler: Handler, seen: list[int]) -> None:
    with pytest.raises(ZeroDivisionError):
        block_with(signal.SIGTERM, lambda: 1 / 0)
    assert seen == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is handler


def test_a_handler_that_ends_the_process_does_so_at_the_end() -> None:
    def leave(number: int, _: FrameType | None) -> None:
        raise SystemExit(number)

    signal.signal(signal.SIGTERM, leave)
    reached: list[bool] = []
    with pytest.raises(SystemExit):
        block_with(signal.SIGTERM, lambda: reached.append(True))
    assert reached
    assert signal.getsignal(signal.SIGTERM) is leave


def test_python_s_own_handler_of_ctrl_c_is_deferred_too() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    reached: list[bool] = []
    with pytest.raises(KeyboardInterrupt):
        block_with(signal.SIGINT, lambda: reached.append(True))
    assert reached


def test_what_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with deferred_signals():
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_other_signals_are_handled_at_once(seen: list[int]) -> None:
    signal.signal(signal.SIGUSR1, lambda number, _: seen.append(number))
    with deferred_signals():
        signal.raise_signal(signal.SIGUSR1)
        assert seen == [signal.SIGUSR1]


def test_an_inner_block_waits_for_the_outer_one(handler: Handler, seen: list[int]) -> None:
    with deferred_signals():
        with deferred_signals():
            signal.raise_signal(signal.SIGTERM)
        assert seen == []
    assert seen == [signal.SIGTERM]


def test_in_another_thread_it_changes_nothing(handler: Handler) -> None:
    found: list[object] = []

    def look() -> None:
        with deferred_signals():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [handler]
