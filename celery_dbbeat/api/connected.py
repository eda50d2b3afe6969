"""What every part of `Schedules` stands on: the app, its settings, a transaction."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

from celery import Celery

from celery_dbbeat import embedded
from celery_dbbeat.settings import Settings
from celery_dbbeat.store.database import Database, Transaction


class Connected:
    """Knows where the schedules of an app are, and who asks for them."""

    def __init__(self, app: Celery, *, user: str | None = None, source: str = "api") -> None:
        """Connects to nothing."""
        self._app = app
        self._user = user
        self._source = source

    @cached_property
    def _settings(self) -> Settings:
        return Settings.read(self._app.conf)

    def _database(self) -> Database:
        # An embedded server is looked for each time: a forked process has to say that it uses it.
        settings = embedded.resolve(self._settings)
        return Database(settings.url, settings.schema, settings.database_timeout)

    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        with self._database() as database, database.transaction() as transaction:
            transaction.act_as(self._user, self._source)
            yield transaction
