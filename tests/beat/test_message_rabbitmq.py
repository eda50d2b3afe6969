"""The message in RabbitMQ is the one that `apply_async` would have put there."""

import json
from collections.abc import Iterator
from typing import Any

import kombu
import pytest
from celery import Celery

from tests.beat.broker import amqp_messages
from tests.beat.comparison import Case, assert_same, send_as_celery
from tests.beat.conftest import MakeApp, MakePublisher
from tests.beat.tasks import register

CASES: dict[str, Case] = {
    "plain": Case(args=[1], kwargs={"two": "žluťoučký 🐎"}),
    "unknown task": Case("elsewhere.task", options={"headers": {"mine": [1, None]}}),
    "exchange and routing key": Case(options={"exchange": "an_exchange", "routing_key": "a.key"}),
    "priority and delivery mode": Case(options={"priority": 3, "delivery_mode": 1}),
    "expires": Case(options={"expires": 300}),
    "expires text": Case(options={"expires": "2036-01-01T00:00:00+00:00"}),
    "pickle, compressed": Case(
        args=["me"], options={"serializer": "pickle", "compression": "zlib"}
    ),
    "sent event": Case(args=["me"], settings={"task_send_sent_event": True}),
    "built by Celery": Case(args=["me"], options={"shadow": "another name"}),
}


@pytest.fixture(scope="module")
def virtual_host(rabbitmq: Any) -> str:  # noqa: ANN401
    """One for all tests here: each takes what it put there."""
    url: str = rabbitmq.fresh_url()
    with kombu.Connection(url) as connection:
        channel = connection.default_channel
        kombu.Queue("events", kombu.Exchange("celeryev", "topic"), "#")(channel).declare()
        kombu.Queue("bound", kombu.Exchange("an_exchange"), "a.key")(channel).declare()
        kombu.Queue("celery", kombu.Exchange("celery"), "celery")(channel).declare()
    return url


@pytest.fixture
def app(make_app: MakeApp, virtual_host: str) -> Iterator[Celery]:
    app = make_app(virtual_host)
    register(app)
    yield app
    taken(virtual_host)


def taken(url: str) -> dict[str, Any]:
    """All that is in the queues; events with their bodies read."""
    found = {queue: amqp_messages(url, queue) for queue in ("celery", "bound", "events")}
    for event in found["events"]:
        event["body"] = json.loads(event["body"])
    return found


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_message_is_the_one_of_apply_async(
    case: Case, app: Celery, make_publisher: MakePublisher, virtual_host: str
) -> None:
    app.conf.update(case.settings)
    one = case.outgoing()
    send_as_celery(app, case, one)
    expected = taken(virtual_host)
    assert make_publisher(app).publish([one]).sent == [one]
    ours = taken(virtual_host)
    assert ours["celery"] or ours["bound"]
    assert bool(ours["events"]) == bool(case.settings)
    assert_same(ours, expected)
