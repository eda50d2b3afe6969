"""What every part of `Schedules` stands on: the app, its settings, a transaction."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property

from celery import Celery

from celery_dbbeat import embedded
from celery_dbbeat.api.definition import Definitions
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

    @cached_property
    def definitions(self) -> Definitions:
        """Reads and checks what is said of schedules, without writing it.

        >>> schedules.definitions.problems({"name": "a", "task": "t", "cron": "61 * * * *"})
        [FieldError("cron '61 * * * *': minute '61' is not understood: …")]
        """
        return Definitions(self._app)

    def _database(self) -> Database:
        # An embedded server is looked for each time: a forked process has to say that it uses it.
        settings = embedded.resolve(self._settings)
        return Database(settings.url, settings.schema, settings.database_timeout)

    @contextmanager
    def _transaction(self, database: Database | None = None) -> Iterator[Transaction]:
        """A transaction of this user's, on a connection of its own unless one is given."""
        with ExitStack() as stack:
            connected = database or stack.enter_context(self._database())
            transaction = stack.enter_context(connected.transaction())
            transaction.act_as(self._user, self._source)
            yield transaction
