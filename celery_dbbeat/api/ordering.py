"""Orders from Python: pause and resume, a tick now, a backfill of days past."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, overload
from uuid import UUID

from celery_dbbeat.api import orders
from celery_dbbeat.api.connected import Connected
from celery_dbbeat.api.orders import Asked, DryRun
from celery_dbbeat.errors import SettingsError
from celery_dbbeat.rules.backfill import Reprocess
from celery_dbbeat.store.backfills import Backfill
from celery_dbbeat.store.orders import pause


class Ordering(Connected):
    """What people order of a schedule besides changing it; `Schedules` is this and more."""

    def pause(self, name: str, note: str | None = None) -> None:
        """Pause a schedule; returns when any claim under way has ended.

        From then on nothing more is recorded for it. What runs goes on.

        >>> schedules.pause("invoices", note="the printer is broken")
        """
        with self._transaction() as transaction:
            pause(transaction, name, note)

    def resume(self, name: str, *, catch_up: bool = False) -> Backfill | None:
        """Let a paused schedule go on at its next fire time; it never fires at once.

        With `catch_up` the time it was paused is ordered as a backfill, which is returned.

        >>> schedules.resume("invoices")
        """
        with self._transaction() as transaction:
            return orders.resume(transaction, name, catch_up=catch_up)

    def trigger(
        self,
        name: str,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> UUID:
        """Have a schedule's task sent now, once, under an id of its own; returns that task id.

        `args` and `kwargs` take the place of the schedule's own. A paused schedule stays paused.

        >>> task_id = schedules.trigger("invoices", kwargs={"month": "2026-04"})
        """
        with self._transaction() as transaction:
            return orders.trigger(transaction, self.definitions, name, args, kwargs)

    @overload
    def backfill(
        self,
        name: str,
        start: datetime | str,
        end: datetime | str,
        dry_run: Literal[True],
        *,
        reprocess: Reprocess = ...,
        limit: int = ...,
    ) -> DryRun: ...

    @overload
    def backfill(
        self,
        name: str,
        start: datetime | str,
        end: datetime | str,
        dry_run: Literal[False] = ...,
        *,
        reprocess: Reprocess = ...,
        max_concurrent: int = ...,
        rate: float | None = ...,
        overlap: str = ...,
        note: str | None = ...,
        force: bool = ...,
    ) -> Backfill: ...

    def backfill(  # noqa: PLR0913 - each by its name
        self,
        name: str,
        start: datetime | str,
        end: datetime | str,
        dry_run: bool = False,  # noqa: FBT001, FBT002 - one of its names that are fixed
        *,
        reprocess: Reprocess = "none",
        max_concurrent: int = 1,
        rate: float | None = None,
        overlap: str = "allow",
        note: str | None = None,
        force: bool = False,
        limit: int = 100,
    ) -> Backfill | DryRun:
        """Have the fire times from `start` to `end` sent, both included, that did not run.

        They have the ids of normal ticks, so what ran is not run again. Beat does it in order, one
        after the other, or `max_concurrent` at once, at most `rate` a second.

        >>> schedules.backfill("invoices", "2026-05-01", "2026-05-31", dry_run=True).count
        31
        >>> backfill = schedules.backfill("invoices", "2026-05-01", "2026-05-31")
        """
        asked = Asked(reprocess, max_concurrent, rate, overlap, note)
        checked = asked.check()
        _check_limit(limit)
        with self._transaction() as transaction:
            stretch = orders.find_range(transaction, name, start, end)
            if dry_run:
                return orders.dry_run(transaction, stretch, checked, limit)
            if not force:
                orders.check_kept(stretch, self._settings.retention)
            return orders.order(transaction, stretch, asked)

    def backfills(self, name: str | None = None, *, limit: int = 100) -> list[Backfill]:
        """Backfills and how far they have come, the newest first; of one schedule, or of all.

        >>> [(one.id, one.state, one.passed, one.total) for one in schedules.backfills("invoices")]
        """
        _check_limit(limit)
        with self._transaction() as transaction:
            return orders.listed(transaction, name, limit)

    def show_backfill(self, number: int) -> Backfill:
        """One backfill, and how far it has come.

        >>> schedules.show_backfill(backfill.id).share
        0.25
        """
        with self._transaction() as transaction:
            return orders.show(transaction, number)

    def stop_backfill(self, number: int) -> Backfill:
        """Have a backfill send nothing more; what it has sent goes on.

        >>> schedules.stop_backfill(backfill.id)
        """
        with self._transaction() as transaction:
            return orders.turn(transaction, number, "stopped")

    def continue_backfill(self, number: int) -> Backfill:
        """Let a backfill that was stopped go on from where it was.

        >>> schedules.continue_backfill(backfill.id)
        """
        with self._transaction() as transaction:
            return orders.turn(transaction, number, "running")


def _check_limit(limit: int) -> None:
    if limit < 1:
        raise SettingsError(f"limit is {limit}; allowed is 1 or more")
