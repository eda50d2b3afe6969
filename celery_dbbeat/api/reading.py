"""Schedules read from Python: one, many, by conditions; their fire times, and how it all stands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from celery_dbbeat.api.connected import Connected
from celery_dbbeat.api.fields import check_limit, refusal
from celery_dbbeat.errors import NotFound
from celery_dbbeat.rules.describe import describe
from celery_dbbeat.rules.preview import FireTime, preview
from celery_dbbeat.rules.schedule import Schedule
from celery_dbbeat.rules.writing import json_text
from celery_dbbeat.store import managing
from celery_dbbeat.store.database import Transaction, database_now
from celery_dbbeat.store.managing import AT_ONCE, Conditions, ScheduleInfo
from celery_dbbeat.store.status import Status, look

Found = list[ScheduleInfo]
FireTimes = list[datetime]

_WORD = re.compile(r"[^\W_]+")
_NOBODY = UUID(int=0)
_STATES = ("active", "paused", "finished", "invalid")


class Reading(Connected):
    """What people ask of schedules."""

    def get(self, name: str) -> ScheduleInfo:
        """One schedule, and when it fires next.

        >>> schedules.get("invoices").next_nominal
        datetime.datetime(2030, 2, 1, 5, 0, tzinfo=datetime.timezone.utc)
        """
        with self._transaction() as transaction:
            return get_one(transaction, name)

    def get_many(self, names: Iterable[str]) -> dict[str, ScheduleInfo]:
        """Schedules by name, a thousand a statement; those that are not there are left out.

        >>> sorted(schedules.get_many(["invoices", "cleanup", "nothing"]))
        ['cleanup', 'invoices']
        """
        every = sorted(set(names))
        found: dict[str, ScheduleInfo] = {}
        with self._transaction() as transaction:
            for start in range(0, len(every), AT_ONCE):
                infos = managing.read(transaction, every[start : start + AT_ONCE])
                found |= {info.name: info for info in infos}
        return found

    def preview(
        self,
        schedule: str | Mapping[str, Any] | ScheduleInfo,
        n: int = 10,
        after: datetime | None = None,
    ) -> FireTimes:
        """The next fire times of a schedule, or of what is not stored yet; nothing is written.

        >>> schedules.preview("invoices", 3)
        >>> schedules.preview({"cron": "0 2 * * *", "timezone": "Europe/Berlin"}, 3)

        They come after `after`, or else after now, as if the schedule were active. `forecast` tells
        more of each.
        """
        return [one.nominal_at for one in self.forecast(schedule, n, after)]

    def forecast(
        self,
        schedule: str | Mapping[str, Any] | ScheduleInfo,
        n: int = 10,
        after: datetime | None = None,
    ) -> Sequence[FireTime]:
        """The same as `preview`, with what clocks show in the schedule's zone, and do there.

        >>> schedules.forecast({"cron": "30 2 * * *", "timezone": "Europe/Berlin"}, 1)[0].dst
        'none'
        """
        check_limit(n, "n")
        if after is not None and after.utcoffset() is None:
            raise refusal("after", after, "a datetime with a time zone")
        with self._transaction() as transaction:
            after = after or database_now(transaction)
            if isinstance(schedule, str):
                schedule = get_one(transaction, schedule)
        runs = schedule.runs if isinstance(schedule, ScheduleInfo) else 0
        return preview(self._as_schedule(schedule), n, after, runs)

    def describe(self, schedule: str | Mapping[str, Any] | ScheduleInfo) -> str:
        """When it fires, in words.

        >>> schedules.describe({"cron": "0 6 1 * *", "timezone": "Europe/Berlin"})
        'At 06:00, on the 1st of the month, Berlin'
        """
        return describe(self._as_schedule(schedule))

    def _as_schedule(self, schedule: str | Mapping[str, Any] | ScheduleInfo) -> Schedule:
        if isinstance(schedule, str):
            schedule = self.get(schedule)
        if isinstance(schedule, ScheduleInfo):
            return schedule.draft().as_schedule(schedule.id)
        draft = self.definitions.draft({"name": "preview", "task": "preview", **schedule})
        return draft.as_schedule(_NOBODY)

    def now(self) -> datetime:
        """What the database's clock shows, which alone decides what is due."""
        with self._transaction() as transaction:
            return database_now(transaction)

    def status(self) -> Status:
        """Who dispatches, what is to be done, what went wrong; quick however much there is.

        >>> schedules.status().late
        0
        """
        settings = self._settings
        ttl, late = (timedelta(seconds=one) for one in (settings.lease_ttl, settings.hedge_after))
        with self._transaction() as transaction:
            return look(transaction, ttl, late)

    # Last, for in this class `list` is this from here on.
    def list(  # noqa: PLR0913 - each condition has its name
        self,
        *,
        state: str | None = None,
        task: str | None = None,
        queue: str | None = None,
        labels: Mapping[str, Any] | None = None,
        text: str | None = None,
        owner: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Found:
        """Schedules in the order of their names, page by page.

        >>> page = schedules.list(state="paused", labels={"team": "billing"})
        >>> page = schedules.list(text="invoice berlin", after=page[-1].name)

        All conditions have to hold. `text`: each word of it begins a word of the name, the task or
        the description. `owner`: people or code. A page costs the same wherever it is.
        """
        check_limit(limit)
        if state is not None and state not in _STATES:
            raise refusal("state", state, f"one of {', '.join(_STATES)}")
        if owner not in {None, "people", "code"}:
            raise refusal("owner", owner, "one of people, code")
        conditions = Conditions(
            after=after,
            state=state,
            task=task,
            queue=queue,
            owner=owner,
            labels=None if not labels else json_text("labels", dict(labels)),
            words=_words(text),
        )
        with self._transaction() as transaction:
            return managing.page(transaction, conditions, limit)


def get_one(transaction: Transaction, name: str) -> ScheduleInfo:
    """The schedule of that name."""
    found = managing.read(transaction, [name])
    if not found:
        raise NotFound(f"there is no schedule {name!r}")
    return found[0]


def _words(text: str | None) -> str | None:
    """A query for all words of a text, each the beginning of one."""
    found = _WORD.findall(text or "")
    if text and not found:
        raise refusal("text", text, "one word or more")
    return " & ".join(f"'{word}':*" for word in found) or None
