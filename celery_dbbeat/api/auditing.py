"""Who changed what, why something did or did not run, and whether nothing was left out."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from celery_dbbeat.api import differing, explaining
from celery_dbbeat.api.differing import Diff
from celery_dbbeat.api.explaining import Explanation
from celery_dbbeat.api.fields import check_limit, refusal
from celery_dbbeat.api.managing import Managing
from celery_dbbeat.errors import SettingsError
from celery_dbbeat.rules.tick import UTC
from celery_dbbeat.store import audit, completeness
from celery_dbbeat.store.audit import Change
from celery_dbbeat.store.completeness import Completeness

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from celery_dbbeat.api.definition import Changes


class Auditing(Managing):
    """What auditors and people on call ask; `Schedules` is this and more."""

    def changes(self, name: str, limit: int = 50) -> list[Change]:
        """Who changed a schedule, when and how, the newest first.

        >>> for change in schedules.changes("invoices"):
        ...     print(change.at, change.who, change.source, change.before, change.after)

        A schedule that was deleted, or had that name once, is found by it as well.
        """
        check_limit(limit)
        with self._transaction() as transaction:
            return audit.changes(transaction, name, limit)

    def explain(self, name: str, at: datetime | str) -> Explanation:
        """Why a schedule did or did not run at an instant.

        >>> print(schedules.explain("invoices", "2026-03-29T02:30").text)

        Text without an offset is a local time in the schedule's zone.
        """
        with self._transaction() as transaction:
            return explaining.explain(transaction, name, at)

    def diff(self, name: str, /, n: int = 10, **changes: Unpack[Changes]) -> Diff:
        """What a change would do to the last and the next `n` fire times; nothing is written.

        >>> schedules.diff("invoices", cron="0 7 1 * *").added
        """
        check_limit(n, "n")
        info = self.get(name)
        base = info.draft()
        draft = self.definitions.draft(changes, base)
        old, new = base.as_schedule(info.id), draft.as_schedule(info.id)
        with self._transaction() as transaction:
            return differing.diff(transaction, old, new, n)

    def check(
        self,
        since: datetime | timedelta,
        until: datetime | timedelta | None = None,
        *,
        limit: int = 1000,
    ) -> Completeness:
        """Whether every fire time of every schedule since then has its tick or its reason.

        >>> schedules.check(timedelta(days=1)).complete
        True

        A timedelta is how long ago, by the database's clock. `gaps` are the first `limit` of those
        that have not, `missing` is how many there are.
        """
        check_limit(limit)
        with self._database() as database:
            now = database.now().astimezone(UTC)
            start = _instant("since", since, now)
            end = now if until is None else _instant("until", until, now)
            if end <= start:
                raise SettingsError(
                    f"until is {end}; allowed is an instant after since, which is {start}"
                )
            return completeness.check(database, start, end, self._settings.retention, limit)


def _instant(name: str, value: datetime | timedelta, now: datetime) -> datetime:
    allowed = "a datetime with a time zone, or a timedelta for how long ago"
    try:
        if isinstance(value, timedelta):
            return now - value
        if value.utcoffset() is not None:
            return value.astimezone(UTC)
    except (AttributeError, OverflowError):  # no datetime, or beyond the calendar
        pass
    raise refusal(name, value, allowed)
