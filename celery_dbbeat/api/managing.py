"""Schedules made, changed and deleted from Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from celery_dbbeat.api.fields import refusal
from celery_dbbeat.api.reading import Reading, get_one
from celery_dbbeat.api.words import by
from celery_dbbeat.errors import FieldError, NameTaken, NotFound, OwnedByCode, VersionConflict
from celery_dbbeat.store import audit, managing
from celery_dbbeat.store.database import Database, Transaction
from celery_dbbeat.store.managing import AT_ONCE, Draft, ScheduleInfo, Written

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from celery_dbbeat.api.definition import Changes, What

OnConflict = Literal["error", "update", "ignore"]
Progress = Callable[[int], None]

#: Of the changes that came in between, so many are told.
_TOLD = 3


class Managing(Reading):
    """What people do with schedules."""

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
            return get_one(transaction, name)

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
        drafts = self.drafts(definitions)
        slices = [drafts[start : start + AT_ONCE] for start in range(0, len(drafts), AT_ONCE)]
        written = Written()
        if on_conflict == "error":
            with self._transaction() as transaction:
                for some in slices:
                    written += _write(transaction, some, on_conflict)
                    _tell(progress, len(some))
            return written
        with self._database() as database:
            if on_conflict == "update":
                self._refuse_the_codes(database, [draft.name for draft in drafts], "changed")
            for some in slices:
                with self._transaction(database) as transaction:
                    written += _write(transaction, some, on_conflict)
                _tell(progress, len(some))
        return written

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
            _check_version(transaction, before, version)
            base = before.draft()
            draft = self.definitions.draft(changes, base)
            if draft == base:
                return before
            if draft.name != name and managing.owners(transaction, [draft.name]):
                raise NameTaken(f"name is {draft.name!r}, which is taken; allowed is another")
            managing.change(transaction, before.id, before.version, draft)
            return get_one(transaction, draft.name)

    def delete(self, name: str, /, version: int | None = None) -> None:
        """Delete a schedule; its history stays.

        >>> schedules.delete("invoices")
        """
        with self._transaction() as transaction:
            before = _lock(transaction, name, "deleted")
            _check_version(transaction, before, version)
            managing.delete(transaction, [name])

    def delete_many(self, names: Iterable[str], *, progress: Progress | None = None) -> int:
        """Delete schedules, a thousand a statement; returns how many were there.

        >>> schedules.delete_many(f"sync-{shop}" for shop in range(100_000))

        Each thousand is a transaction of its own. Where the code owns one of them, none is deleted.
        """
        every = sorted(set(names))
        deleted = 0
        with self._database() as database:
            self._refuse_the_codes(database, every, "deleted")
            for start in range(0, len(every), AT_ONCE):
                some = every[start : start + AT_ONCE]
                with self._transaction(database) as transaction:
                    deleted += managing.delete(transaction, some)
                _tell(progress, len(some))
        return deleted

    def drafts(self, definitions: Iterable[Mapping[str, Any]]) -> Sequence[Draft]:
        """All of these checked, nothing written; the first that is wrong is named."""
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

    def _refuse_the_codes(self, database: Database, names: Sequence[str], verb: str) -> None:
        with self._transaction(database) as transaction:
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
        refuse_the_code(name, owner, verb)


def _lock(transaction: Transaction, name: str, verb: str) -> ScheduleInfo:
    """The schedule, which nobody else changes until this transaction ends."""
    found = transaction.run("lock_schedule", name=name).all
    if not found:
        raise NotFound(f"there is no schedule {name!r}")
    refuse_the_code(name, found[0]["owner"], verb)
    return get_one(transaction, name)


def refuse_the_code(name: str, owner: str, verb: str) -> None:
    """Raise OwnedByCode for what the app's code owns."""
    if owner == "code":
        raise OwnedByCode(
            f"the schedule {name!r} comes from the app's beat_schedule, so it is {verb} there: the "
            "next deploy would undo it here; allowed here is to pause and to resume it"
        )


def _check_version(transaction: Transaction, now: ScheduleInfo, version: int | None) -> None:
    if version is None or version == now.version:
        return
    since = max(0, now.version - version)
    told = [
        by(change)
        for change in audit.changes(transaction, now.name, since)[:_TOLD]
        if change.action == "update"
    ]
    raise VersionConflict(
        f"the schedule {now.name!r} is at version {now.version}, not {version}: "
        f"{'; before that '.join(told) or 'it never was'}; read it again, and see what to keep"
    )


def _tell(progress: Progress | None, count: int) -> None:
    if progress is not None:
        progress(count)
