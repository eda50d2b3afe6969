"""Schedules made, read, changed and deleted from Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from celery_dbbeat.api.connected import Connected
from celery_dbbeat.api.definition import Definitions
from celery_dbbeat.api.fields import check_limit, refusal
from celery_dbbeat.errors import (
    FieldError,
    NameTaken,
    NotFound,
    OwnedByCode,
    VersionConflict,
)
from celery_dbbeat.rules.upcoming import upcoming
from celery_dbbeat.rules.writing import json_text
from celery_dbbeat.store import managing
from celery_dbbeat.store.database import Transaction
from celery_dbbeat.store.managing import AT_ONCE, Conditions, Draft, ScheduleInfo, Written

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from celery_dbbeat.api.definition import Changes, What

OnConflict = Literal["error", "update", "ignore"]
Progress = Callable[[int], None]
Found = list[ScheduleInfo]
FireTimes = list[datetime]

_WORD = re.compile(r"[^\W_]+")
_NOBODY = UUID(int=0)
_STATES = ("active", "paused", "finished", "invalid")


class Managing(Connected):
    """What people do with schedules; `Schedules` is this and more."""

    @cached_property
    def definitions(self) -> Definitions:
        """Reads and checks what is said of schedules, without writing it.

        >>> schedules.definitions.problems({"name": "a", "task": "t", "cron": "61 * * * *"})
        [FieldError("cron '61 * * * *': minute '61' is not understood: …")]
        """
        return Definitions(self._app)

    def create(
        self,
        name: str,
        task: str,
        *,
        on_conflict: OnConflict = "error",
        **what: Unpack[What],
    ) -> ScheduleInfo:
        """Make a schedule; it starts at its next fire time. Returns it as it is stored.

        >>> schedules.create("invoices", "shop.bill", cron="0 6 1 * *", timezone="Europe/Berlin")
        >>> schedules.create("cleanup", "shop.cleanup", interval=timedelta(hours=1), jitter=60)
        >>> schedules.create("launch", "shop.mail", once=datetime(2030, 1, 31, tzinfo=UTC))

        *When* is one of `cron`, `crontab` (Celery's object, a dictionary of its fields, JSON),
        `interval` (a timedelta, seconds, text), `rrule`, `solar` (Celery's object or text), `once`
        (a datetime); as columns hold it, `kind` and `expression`. Durations take seconds or a
        timedelta. The table in docs/managing.md tells what each argument means.

        A name that is there is an error. With `on_conflict="update"` that schedule becomes as given
        here, but stays paused or finished where no `state` is given; with `"ignore"` it stays as it
        is. One that the app's code owns is never touched.
        """
        _check_conflict(on_conflict)
        draft = self.definitions.draft({"name": name, "task": task, **what})
        with self._transaction() as transaction:
            _write(transaction, [draft], on_conflict)
            return _get(transaction, name)

    def create_many(
        self,
        definitions: Iterable[Mapping[str, Any]],
        *,
        on_conflict: OnConflict = "error",
        progress: Progress | None = None,
    ) -> Written:
        """Make many schedules, a thousand a statement; returns the names made and changed.

        >>> schedules.create_many(
        ...     {"name": f"sync-{shop}", "task": "shop.tasks.sync", "interval": 60, "args": [shop]}
        ...     for shop in range(100_000)
        ... )

        Each is a dictionary with the arguments of `create`. All are checked before anything is
        written. With `on_conflict="error"` either all are made or none. With `"update"` and
        `"ignore"` each thousand is a transaction of its own, so that nobody waits long for one of
        them; where that is cut short, do it again. `progress` is called with the number of
        schedules that each statement has seen to.
        """
        _check_conflict(on_conflict)
        drafts = self._drafts(definitions)
        slices = [drafts[start : start + AT_ONCE] for start in range(0, len(drafts), AT_ONCE)]
        written = Written()
        if on_conflict == "error":
            with self._transaction() as transaction:
                for some in slices:
                    written += _write(transaction, some, on_conflict)
                    _tell(progress, len(some))
            return written
        if on_conflict == "update":
            self._refuse_the_codes([draft.name for draft in drafts], "changed")
        for some in slices:
            with self._transaction() as transaction:
                written += _write(transaction, some, on_conflict)
            _tell(progress, len(some))
        return written

    def get(self, name: str) -> ScheduleInfo:
        """One schedule, and when it fires next.

        >>> schedules.get("invoices").next_nominal
        datetime.datetime(2030, 2, 1, 5, 0, tzinfo=datetime.timezone.utc)
        """
        with self._transaction() as transaction:
            return _get(transaction, name)

    def update(
        self, name: str, /, version: int | None = None, **changes: Unpack[Changes]
    ) -> ScheduleInfo:
        """Change what is given, and nothing else; returns the schedule as it is now.

        >>> schedules.update("invoices", cron="0 7 1 * *", labels={"team": "billing"})
        >>> schedules.update("invoices", name="monthly invoices")

        With the `version` that was read, a change that somebody else made in between is a
        VersionConflict, and nothing is written:

        >>> seen = schedules.get("invoices")
        >>> schedules.update("invoices", version=seen.version, queue="slow")

        None takes away what may be missing (`end_at=None`). An edit never fires at once.
        """
        with self._transaction() as transaction:
            before = _lock(transaction, name, "changed")
            if version is not None and version != before.version:
                raise _conflict(before, version)
            base = before.draft()
            draft = self.definitions.draft(changes, base)
            if draft == base:
                return before
            if draft.name != name and managing.owners(transaction, [draft.name]):
                raise _taken([draft.name])
            managing.change(transaction, before.id, before.version, draft)
            return _get(transaction, draft.name)

    def delete(self, name: str, /, version: int | None = None) -> None:
        """Delete a schedule; its history stays.

        >>> schedules.delete("invoices")
        """
        with self._transaction() as transaction:
            before = _lock(transaction, name, "deleted")
            if version is not None and version != before.version:
                raise _conflict(before, version)
            managing.delete(transaction, [name])

    def delete_many(self, names: Iterable[str], *, progress: Progress | None = None) -> int:
        """Delete schedules, a thousand a statement; returns how many were there.

        >>> schedules.delete_many(f"sync-{shop}" for shop in range(100_000))

        Each thousand is a transaction of its own. Where the code owns one of them, none is deleted.
        """
        every = sorted(set(names))
        self._refuse_the_codes(every, "deleted")
        deleted = 0
        for start in range(0, len(every), AT_ONCE):
            some = every[start : start + AT_ONCE]
            with self._transaction() as transaction:
                deleted += managing.delete(transaction, some)
            _tell(progress, len(some))
        return deleted

    def preview(
        self,
        schedule: str | Mapping[str, Any] | ScheduleInfo,
        n: int = 10,
        after: datetime | None = None,
    ) -> FireTimes:
        """The next fire times of a schedule, or of what is not stored yet; nothing is written.

        >>> schedules.preview("invoices", 3)
        >>> schedules.preview({"cron": "0 2 * * *", "timezone": "Europe/Berlin"}, 3)

        They come after `after`, or else after now, as if the schedule were active.
        """
        check_limit(n, "n")
        if after is not None and after.utcoffset() is None:
            raise refusal("after", after, "a datetime with a time zone")
        with self._transaction() as transaction:
            after = after or transaction.run("database_now").one()["now"]
            if isinstance(schedule, str):
                schedule = _get(transaction, schedule)
        if isinstance(schedule, ScheduleInfo):
            draft, identity = schedule.draft(), schedule.id
            n = n if draft.max_runs is None else min(n, max(0, draft.max_runs - schedule.runs))
        else:
            draft = self.definitions.draft({"name": "preview", "task": "preview", **schedule})
            identity, n = _NOBODY, min(n, draft.max_runs or n)
        return upcoming(draft.as_schedule(identity), after, n)

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
        check_limit(limit, "limit")
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
            return managing.read(transaction, conditions, limit)

    def _drafts(self, definitions: Iterable[Mapping[str, Any]]) -> Sequence[Draft]:
        drafts: dict[str, Draft] = {}
        for number, given in enumerate(definitions, 1):
            try:
                draft = self.definitions.draft(given)
            except FieldError as error:
                which = f"schedule {given.get('name')!r} (number {number})"
                raise FieldError(error.field, f"{which}: {error}") from None
            if draft.name in drafts:
                raise FieldError("name", f"name {draft.name!r} is given twice; allowed is once")
            drafts[draft.name] = draft
        return tuple(drafts.values())

    def _refuse_the_codes(self, names: Sequence[str], verb: str) -> None:
        with self._transaction() as transaction:
            for start in range(0, len(names), AT_ONCE):
                _refuse_codes(transaction, names[start : start + AT_ONCE], verb)


def _check_conflict(on_conflict: str) -> None:
    if on_conflict not in {"error", "update", "ignore"}:
        raise refusal("on_conflict", on_conflict, "one of error, update, ignore")


def _write(transaction: Transaction, drafts: Sequence[Draft], on_conflict: OnConflict) -> Written:
    written = managing.put(transaction, drafts, overwrite=on_conflict == "update")
    if on_conflict == "error" and written.unchanged:
        raise _taken(written.unchanged)
    if on_conflict == "update":
        _refuse_codes(transaction, written.unchanged, "changed")
    return written


def _taken(names: Sequence[str]) -> NameTaken:
    few, more = names[:5], len(names) - 5
    shown = ", ".join(map(repr, few)) + (f" and {more} more" if more > 0 else "")
    return NameTaken(
        f"name is {shown}, which {'is' if len(names) == 1 else 'are'} taken; allowed is another, "
        "or on_conflict='update' or 'ignore'"
    )


def _refuse_codes(transaction: Transaction, names: Sequence[str], verb: str) -> None:
    for name, owner in managing.owners(transaction, names).items():
        _refuse_the_code(name, owner, verb)


def _get(transaction: Transaction, name: str) -> ScheduleInfo:
    found = managing.read(transaction, Conditions(names=[name]))
    if not found:
        raise NotFound(f"there is no schedule {name!r}")
    return found[0]


def _lock(transaction: Transaction, name: str, verb: str) -> ScheduleInfo:
    """The schedule, which nobody else changes until this transaction ends."""
    found = transaction.run("lock_schedule", name=name).all
    if not found:
        raise NotFound(f"there is no schedule {name!r}")
    _refuse_the_code(name, found[0]["owner"], verb)
    return _get(transaction, name)


def _refuse_the_code(name: str, owner: str, verb: str) -> None:
    if owner == "code":
        raise OwnedByCode(
            f"the schedule {name!r} comes from the app's beat_schedule, so it is {verb} there: the "
            "next deploy would undo it here; allowed here is to pause and to resume it"
        )


def _conflict(now: ScheduleInfo, version: int) -> VersionConflict:
    return VersionConflict(
        f"the schedule {now.name!r} is at version {now.version}, not {version}: it was changed at "
        f"{now.updated_at.isoformat(timespec='seconds')}; read it again, and see what to keep"
    )


def _words(text: str | None) -> str | None:
    """A query for all words of a text, each the beginning of one."""
    found = _WORD.findall(text or "")
    if text and not found:
        raise refusal("text", text, "one word or more")
    return " & ".join(f"'{word}':*" for word in found) or None


def _tell(progress: Progress | None, count: int) -> None:
    if progress is not None:
        progress(count)
