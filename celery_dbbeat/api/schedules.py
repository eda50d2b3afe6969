"""Schedules from Python: what is managed, what became of it, what can be done about that."""

from datetime import datetime
from uuid import UUID

from celery_dbbeat.api.auditing import Auditing
from celery_dbbeat.api.fields import check_limit
from celery_dbbeat.api.ordering import Ordering
from celery_dbbeat.errors import NotFound, SettingsError
from celery_dbbeat.store import history
from celery_dbbeat.store.history import DeadLetter, HistoryEntry


class Schedules(Auditing, Ordering):
    """The schedules of an app.

    >>> schedules = Schedules(app)
    >>> schedules.create("invoices", "shop.tasks.bill", cron="0 6 1 * *", timezone="Europe/Berlin")
    >>> schedules.update("invoices", queue="slow")
    >>> schedules.history("invoices", limit=1)[0].state
    'sent'

    Making one costs nothing and connects to nothing, so it may stand beside the app. The settings
    are read at first use; each call has a connection of its own, so that threads and forked
    processes may share the object. In asyncio, call it in a thread:

    >>> await asyncio.to_thread(schedules.get, "invoices")

    `user` is who makes changes, for the records: `Schedules(app, user="ada")`.
    """

    def history(
        self, name: str, limit: int = 50, before: datetime | None = None
    ) -> list[HistoryEntry]:
        """What became of a schedule's fire times, the newest first.

        >>> page = schedules.history("invoices")
        >>> [(entry.nominal, entry.state, entry.duration, entry.error) for entry in page]
        >>> older = schedules.history("invoices", before=page[-1].nominal)
        """
        check_limit(limit)
        if before is not None and before.tzinfo is None:
            raise SettingsError(f"before is {before!r}; allowed is a datetime with a time zone")
        with self._transaction() as transaction:
            return history.history(transaction, name, limit, before)

    def dead(self, *, schedule: str | None = None, limit: int = 100) -> list[DeadLetter]:
        """Ticks that were given up, the newest first; of one schedule, or of all.

        >>> for letter in schedules.dead():
        ...     print(letter.schedule, letter.nominal, letter.reason, letter.traceback)
        """
        check_limit(limit)
        with self._transaction() as transaction:
            return history.dead(transaction, limit, schedule)

    def replay(self, *task_ids: UUID | str) -> None:
        """Have dead ticks run again, under their own ids; beat sends them at once.

        >>> schedules.replay(schedules.dead()[0].task_id)

        Where one of them cannot be, none is.
        """
        if not task_ids:
            raise NotFound("no task id is named; allowed is one or more, or replay_all()")
        identities = [_identity(task_id) for task_id in task_ids]
        with self._transaction() as transaction:
            for identity in identities:
                history.replay(transaction, identity)

    def replay_all(self, *, schedule: str | None = None) -> int:
        """Have all dead ticks run again, of one schedule or of all; returns how many.

        Those whose schedule was deleted stay dead.

        >>> schedules.replay_all(schedule="invoices")
        3
        """
        with self._transaction() as transaction:
            return history.replay_all(transaction, schedule)


def _identity(task_id: UUID | str) -> UUID:
    try:
        return task_id if isinstance(task_id, UUID) else UUID(task_id)
    except ValueError:
        raise NotFound(f"{task_id!r} is not a task id of this package; allowed is a UUID") from None
