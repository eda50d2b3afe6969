"""What beat says happened. Without `dbbeat_http` each of these is one look at None."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Protocol

from celery_dbbeat.clock import DatabaseClock, monotonic
from celery_dbbeat.observe.board import Board, Reading
from celery_dbbeat.observe.catalogue import BEAT


class _Range(Protocol):
    @property
    def state(self) -> str: ...
    @property
    def count(self) -> int: ...


class _Tick(Protocol):
    @property
    def due_at(self) -> datetime: ...
    @property
    def attempt(self) -> int: ...


class _Outgoing(Protocol):
    @property
    def tick(self) -> _Tick: ...


class _Outcome(Protocol):
    @property
    def sent(self) -> Sequence[_Outgoing]: ...


class _Books:
    """The numbers, and what the batch under way adds to them once it is committed."""

    def __init__(self) -> None:
        self.board = Board(BEAT)
        self.clock = DatabaseClock()
        self.lap_at = monotonic()
        self.pending: list[tuple[str, str, float]] = []

    def lap(self, step: str) -> None:
        now = monotonic()
        self.board.observe("dbbeat_batch_seconds", [now - self.lap_at], step)
        self.lap_at = now


_books: _Books | None = None


def enable() -> Callable[[], Iterator[Reading]]:
    """Count from now on, from zero; returns how to read what was counted."""
    global _books  # noqa: PLW0603 - there is one beat in a process
    _books = _Books()
    return _books.board.read


def disable() -> None:
    """Count no longer."""
    global _books  # noqa: PLW0603 - there is one beat in a process
    _books = None


def batch_begins() -> None:
    """A transaction is begun; what one before left pending was rolled back."""
    if _books is not None:
        _books.pending.clear()
        _books.lap_at = monotonic()


def lap(step: str) -> None:
    """A step of the batch is over."""
    if _books is not None:
        _books.lap(step)


def claimed(now: datetime | None) -> None:
    """What is due is claimed, at this instant of the database."""
    if _books is not None:
        _books.lap("claim")
        if now is not None:
            _books.clock.observe(now)


def planned(hedged: Iterable[int], not_sent: Iterable[_Range]) -> None:
    """It is decided what becomes of what was claimed."""
    if _books is not None:
        _books.lap("plan")
        ranges = [("dbbeat_ticks_total", one.state, float(one.count)) for one in not_sent]
        _books.pending = [*ranges, ("dbbeat_hedged_ticks_total", "", float(sum(hedged)))]


def committed() -> None:
    """What was planned holds."""
    if _books is not None:
        _books.lap("commit")
        for name, value, by in _books.pending:
            _books.board.add(name, value, by)
        _books.pending.clear()


def published(seconds: float, outcome: _Outcome) -> None:
    """The broker was handed a batch; how late each tick was is told of its first sending."""
    if _books is not None:
        board, now = _books.board, _books.clock.now()
        board.observe("dbbeat_batch_seconds", [seconds], "publish")
        for name in ("sent", "refused", "impossible", "unsent"):
            board.add("dbbeat_ticks_total", name, len(getattr(outcome, name)))
        if now is not None:
            late = [
                max(0.0, (now - one.tick.due_at).total_seconds())
                for one in outcome.sent
                if one.tick.attempt == 1
            ]
            board.observe("dbbeat_tick_lateness_seconds", late)


def missed(number: int) -> None:
    """So many were not known to be sent until it was too late."""
    if _books is not None:
        _books.board.add("dbbeat_ticks_total", "missed", number)


def leases(held: int, gained: int, lost: int) -> None:
    """Leases changed hands."""
    if _books is not None:
        _books.board.set("dbbeat_leases_held", held)
        _books.board.add("dbbeat_lease_changes_total", "gained", gained)
        _books.board.add("dbbeat_lease_changes_total", "lost", lost)


def recovered(why: str, number: int = 1) -> None:
    """So many ticks are sent again."""
    if _books is not None:
        _books.board.add("dbbeat_recovered_ticks_total", why, number)


def died(number: int = 1) -> None:
    """So many ticks are given up."""
    if _books is not None:
        _books.board.add("dbbeat_ticks_died_total", by=number)


def ended(states: Sequence[str]) -> None:
    """Schedules are over, or cannot be used."""
    if _books is not None:
        for state in states:
            _books.board.add("dbbeat_schedules_ended_total", state)


def pass_over(failed: str | None) -> None:
    """A pass ended well, or failed because of this."""
    if _books is not None:
        _books.board.set("dbbeat_ready", 0.0 if failed else 1.0)
        if failed:
            _books.board.add("dbbeat_errors_total", failed)
