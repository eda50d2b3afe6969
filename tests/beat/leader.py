"""A leader without its loop, and what its messages and ticks look like from outside."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from celery_dbbeat.beat.dispatcher import Dispatcher
from celery_dbbeat.beat.publisher import Publisher
from celery_dbbeat.beat.recovery import Recovery
from celery_dbbeat.settings import Settings
from celery_dbbeat.store.database import Database
from tests.beat.broker import redis_client, redis_lists
from tests.store.kit import EVERYTHING, Person

#: Sends the tick of a new schedule: `sent(name, taken=…, **columns)`.
Send = Callable[..., UUID]

AWAITED = ("sent", None, True)
DONE = ("sent", "done", False)


class Leader:
    """The parts of a replica that send and recover."""

    def __init__(self, url: str, publisher: Publisher, settings: Settings, name: str) -> None:
        self.database = Database(url, None, 5.0)
        self.dispatcher = Dispatcher(self.database, publisher, settings, name)
        self.recovery = Recovery(self.database, publisher, self.dispatcher, settings, name)

    def dispatch(self) -> None:
        """Send what is due, and mark it."""
        self.dispatcher.run(EVERYTHING, 1.0)
        self.dispatcher.finish()

    def look(self) -> None:
        """One pass of recovery."""
        self.recovery.run()

    def close(self) -> None:
        """Hang up."""
        self.database.close()


def take_messages(url: str) -> list[dict[str, Any]]:
    """Take every message from every queue."""
    lists = redis_lists(url)
    with redis_client(url) as client:
        for name in lists:
            client.delete(name)
    return [message for messages in lists.values() for message in messages]


def attempts(url: str) -> list[int]:
    """For which attempts messages wait."""
    messages = redis_lists(url).get("celery", [])
    return [message["headers"]["dbbeat"]["attempt"] for message in messages]


def fate(person: Person, identity: UUID) -> tuple[str, str | None, bool]:
    """What became of a schedule's only tick."""
    (tick,) = person.ticks(identity)
    return tick["state"], tick["outcome"], tick["awaited"]
