"""Apps, publishers and leaders that are closed when their test is over."""

from collections.abc import Callable, Iterator
from contextlib import closing
from uuid import UUID

import kombu.pools
import pytest
from celery import Celery

from celery_dbbeat.beat.publisher import Publisher
from celery_dbbeat.settings import Settings
from tests.beat.leader import Leader, Send, take_messages
from tests.store.kit import Person

MakeApp = Callable[..., Celery]
MakePublisher = Callable[..., Publisher]


@pytest.fixture
def make_app() -> Iterator[MakeApp]:
    """Makes apps: `make_app(broker_url, **settings)`."""
    apps: list[Celery] = []

    def make(broker: str, **settings: object) -> Celery:
        app = Celery("tests", broker=broker, set_as_current=False)
        app.conf.update(settings)
        apps.append(app)
        return app

    yield make
    for app in apps:
        app.close()
    # They are shared by URL, and remember what was declared through them.
    kombu.pools.reset()


@pytest.fixture
def make_publisher() -> Iterator[MakePublisher]:
    """Makes connected publishers: `make_publisher(app, timeout)`."""
    publishers: list[Publisher] = []

    def make(app: Celery, timeout: float = 5) -> Publisher:
        publisher = Publisher(app, timeout)
        publishers.append(publisher)
        publisher.ensure()
        return publisher

    yield make
    for publisher in publishers:
        publisher.close()


@pytest.fixture
def person(database_url: str) -> Iterator[Person]:
    with closing(Person(database_url)) as somebody:
        yield somebody


@pytest.fixture
def settings(database_url: str) -> Settings:
    """Those of a beat whose workers have the guard."""
    return Settings.read({"dbbeat_url": database_url, "dbbeat_guard": True}, {})


@pytest.fixture
def publisher(make_app: MakeApp, make_publisher: MakePublisher, redis_url: str) -> Publisher:
    return make_publisher(make_app(redis_url))


@pytest.fixture
def beat(database_url: str, publisher: Publisher, settings: Settings) -> Iterator[Leader]:
    with closing(Leader(database_url, publisher, settings, "a")) as leader:
        yield leader


@pytest.fixture
def other_beat(database_url: str, publisher: Publisher, settings: Settings) -> Iterator[Leader]:
    with closing(Leader(database_url, publisher, settings, "b")) as leader:
        yield leader


@pytest.fixture
def sent(beat: Leader, person: Person, redis_url: str) -> Send:
    """Sends the tick of a new schedule, and takes its message from the queue unless told not to."""

    def send(name: str = "one", *, taken: bool = True, **columns: object) -> UUID:
        (identity,) = person.add_due(name, **columns)
        beat.dispatch()
        if taken:
            take_messages(redis_url)
        return identity

    return send
