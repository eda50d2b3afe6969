"""Let a batch end before a signal ends the process.

Celery's handler of SIGTERM and SIGINT closes the scheduler inside the handler, wherever the main
thread happens to be: in the middle of a query, or half-way through a batch whose other half would
then have to be sent again by somebody else. So while a pass runs, signals are only noted, and
raised again at its end. A pass is short, and everything in it has a time-out.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_DEFERRED = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Hold back signals until the end of the block; does nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    noted: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        noted.append(number)

    before = {number: signal.getsignal(number) for number in _DEFERRED}
    ours = [number for number, handler in before.items() if handler not in {None, signal.SIG_IGN}]
    for number in ours:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])
        for signalled in noted:
            signal.raise_signal(signalled)
