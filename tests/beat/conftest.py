"""Apps and publishers that are closed when their test is over."""

from collections.abc import Callable, Iterator

import kombu.pools
import pytest
from celery import Celery

from celery_dbbeat.beat.publisher import Publisher

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
