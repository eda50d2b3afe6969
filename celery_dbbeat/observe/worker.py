"""What a worker's processes say happened. Without `dbbeat_worker_http` each is one look at None."""

from collections.abc import Callable, Iterator

from billiard.process import current_process

from celery_dbbeat.observe.board import Board, Reading
from celery_dbbeat.observe.catalogue import WORKER

#: More processes than that share rows, and may lose a count now and then.
_MOST_PROCESSES = 256

_board: Board | None = None


def enable() -> Callable[[], Iterator[Reading]]:
    """Count from now on, in this process and in those forked from it; returns how to read that."""
    global _board  # noqa: PLW0603 - there is one worker in a process
    _board = Board(WORKER, rows=1 + _MOST_PROCESSES)
    return _board.read


def disable() -> None:
    """Count no longer."""
    global _board  # noqa: PLW0603 - there is one worker in a process
    _board = None


def in_pool_process() -> None:
    """Write apart from the others: each process has one place in the pool."""
    if _board is not None:
        place: int = getattr(current_process(), "index", 0)
        _board.write_in_row(1 + place % _MOST_PROCESSES)


def taken(seconds: float) -> None:
    """It was asked for an id, and known whether it could be had."""
    if _board is not None:
        _board.observe("dbbeat_guard_seconds", [seconds], "take")


def skipped() -> None:
    """A message was somebody's already, or done."""
    if _board is not None:
        _board.add("dbbeat_duplicates_skipped_total")


def ran(seconds: float) -> None:
    """A run is over."""
    if _board is not None:
        _board.observe("dbbeat_run_seconds", [seconds])


def finished(outcome: str, seconds: float) -> None:
    """How a run ended is written down, after so many seconds."""
    if _board is not None:
        _board.add("dbbeat_runs_total", outcome)
        _board.observe("dbbeat_guard_seconds", [seconds], "finish")


def database_away(step: str) -> None:
    """An id could not be taken, or an end not be written down now."""
    if _board is not None:
        _board.add("dbbeat_guard_errors_total", step)
