"""RabbitMQ's word on each message: confirmed, returned, refused, or the channel closed."""

from collections.abc import Callable
from typing import Any

import kombu
import pytest
from celery import Celery
from kombu.common import Broadcast

from celery_dbbeat.store.cursors import Outgoing
from tests.beat.broker import amqp_ids
from tests.beat.conftest import MakeApp, MakePublisher
from tests.beat.outgoing import ids, numbered, outgoing

NOWHERE = {"exchange": "unbound", "routing_key": "nowhere"}
NO_EXCHANGE = {"exchange": "never_declared", "routing_key": "x"}


@pytest.fixture
def app(make_app: MakeApp, rabbitmq_url: str) -> Celery:
    on_channel(rabbitmq_url, lambda channel: kombu.Exchange("unbound")(channel).declare())
    return make_app(rabbitmq_url)


def on_channel(url: str, act: Callable[[Any], Any]) -> None:
    with kombu.Connection(url) as connection:
        act(connection.default_channel)


def test_a_batch_of_several_windows_arrives_in_order(
    app: Celery, make_publisher: MakePublisher, rabbitmq_url: str
) -> None:
    batch = numbered(1500)
    outcome = make_publisher(app).publish(batch)
    assert outcome.sent == batch
    assert amqp_ids(rabbitmq_url) == ids(batch)


def test_confirms_are_awaited_a_window_at_a_time(
    app: Celery, make_publisher: MakePublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = make_publisher(app)
    confirms = publisher._confirms
    assert confirms is not None
    awaited: list[int] = []
    await_all = confirms.await_all

    def counted() -> dict[str, str]:
        awaited.append(len(confirms._awaited))
        return await_all()

    monkeypatch.setattr(confirms, "await_all", counted)
    publisher.publish(numbered(1200))
    assert len(awaited) == 2
    assert confirms._awaited == {}


@pytest.mark.parametrize(
    "more", [{}, {"shadow": "built by Celery"}, {"correlation_id": "its own"}], ids=str
)
def test_what_no_queue_takes_is_refused(
    more: dict[str, Any], app: Celery, make_publisher: MakePublisher, rabbitmq_url: str
) -> None:
    lost = outgoing(options={**NOWHERE, **more})
    before, after = numbered(2)
    outcome = make_publisher(app).publish([before, lost, after])
    assert outcome.sent == [before, after]
    assert "NO_ROUTE" in outcome.refused[lost]
    assert amqp_ids(rabbitmq_url) == ids([before, after])


def test_a_refusal_is_forgotten_with_the_next_batch(
    app: Celery, make_publisher: MakePublisher, rabbitmq_url: str
) -> None:
    publisher = make_publisher(app)
    lost = outgoing(options=NOWHERE)
    assert list(publisher.publish([lost]).refused) == [lost]
    queue = kombu.Queue("late", kombu.Exchange("unbound"), "nowhere")
    on_channel(rabbitmq_url, lambda channel: queue(channel).declare())
    publisher.ensure()
    assert publisher.publish([lost]).sent == [lost]
    assert amqp_ids(rabbitmq_url, "late") == ids([lost])


def test_a_queue_deleted_meanwhile_is_declared_again(
    app: Celery, make_publisher: MakePublisher, rabbitmq_url: str
) -> None:
    publisher = make_publisher(app)
    first, second = numbered(2)
    assert publisher.publish([first]).sent == [first]
    on_channel(rabbitmq_url, lambda channel: channel.queue_delete("celery"))
    publisher.ensure()
    assert "NO_ROUTE" in publisher.publish([second]).refused[second]
    publisher.ensure()
    assert publisher.publish([second]).sent == [second]
    assert amqp_ids(rabbitmq_url) == ids([second])


def test_what_a_full_queue_rejects_is_refused(
    app: Celery, make_publisher: MakePublisher, rabbitmq_url: str
) -> None:
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    app.conf.task_queues = [kombu.Queue("full", queue_arguments=full), kombu.Queue("celery")]
    to_full = [outgoing(options={"queue": "full"}) for _ in range(4)]
    [other] = numbered(1)
    outcome = make_publisher(app).publish([*to_full, other])
    assert other in outcome.sent
    assert {*outcome.sent, *outcome.refused} == {*to_full, other}
    assert all("nack" in reason for reason in outcome.refused.values())
    arrived = amqp_ids(rabbitmq_url, "full")
    assert 1 <= len(arrived) < 4
    assert arrived == [task_id for task_id in ids(to_full) if task_id in ids(outcome.sent)]


def precondition(channel: Any) -> None:  # noqa: ANN401
    """A queue that is not what Celery would declare."""
    channel.queue_declare("odd", durable=True, auto_delete=False, arguments={"x-max-length": 5})


CULPRITS: dict[str, tuple[dict[str, Any], str]] = {
    "no such exchange": (NO_EXCHANGE, "NOT_FOUND"),
    "no such exchange, built by Celery": ({**NO_EXCHANGE, "shadow": "x"}, "NOT_FOUND"),
    "a queue of another kind": ({"queue": "odd"}, "PRECONDITION_FAILED"),
    "the same, built by Celery": ({"queue": "odd", "shadow": "x"}, "PRECONDITION_FAILED"),
    "an expiration that is none": ({"expiration": -4}, "PRECONDITION_FAILED"),
}


@pytest.mark.parametrize(("options", "reason"), CULPRITS.values(), ids=CULPRITS.keys())
def test_only_what_made_the_broker_close_the_channel_is_refused(
    options: dict[str, Any],
    reason: str,
    app: Celery,
    make_publisher: MakePublisher,
    rabbitmq_url: str,
) -> None:
    on_channel(rabbitmq_url, precondition)
    culprit = outgoing(options=options)
    others = numbered(4)
    publisher = make_publisher(app)
    outcome = publisher.publish([*others[:2], culprit, *others[2:]])
    assert set(outcome.sent) == set(others)
    assert reason in outcome.refused[culprit]
    assert (outcome.unsent, outcome.broken) == ([], None)
    # Sent again is allowed, lost is not.
    assert set(amqp_ids(rabbitmq_url)) == {*ids(others)}
    publisher.ensure()
    [later] = numbered(1)
    assert publisher.publish([later]).sent == [later]


TOO_BIG: list[dict[str, Any]] = [{"headers": {"big": 2**70}}, {"priority": 300}]


@pytest.mark.parametrize("options", TOO_BIG, ids=str)
def test_what_the_protocol_cannot_hold_is_impossible_and_confirms_still_match(
    options: dict[str, Any], app: Celery, make_publisher: MakePublisher, rabbitmq_url: str
) -> None:
    wrong, lost = outgoing(options=options), outgoing(options=NOWHERE)
    before, after = numbered(2)
    outcome = make_publisher(app).publish([before, wrong, lost, after])
    assert outcome.sent == [before, after]
    assert list(outcome.impossible) == [wrong]
    assert list(outcome.refused) == [lost]
    assert amqp_ids(rabbitmq_url) == ids([before, after])


def test_a_router_that_cannot_reach_its_own_server_stops_only_its_own_ticks(
    app: Celery, make_publisher: MakePublisher, rabbitmq_url: str
) -> None:
    def route(name: str, args: list[Any], *_: object, **__: object) -> None:
        if args == ["wrong"]:
            raise ConnectionRefusedError("the router's own")

    app.conf.task_routes = (route,)
    before, after = numbered(2)
    wrong: Outgoing = outgoing(args=["wrong"])
    outcome = make_publisher(app).publish([before, wrong, after])
    assert set(outcome.sent) == {before, after}
    assert "the router's own" in (outcome.impossible | outcome.refused)[wrong]
    assert set(amqp_ids(rabbitmq_url)) == {*ids([before, after])}


def test_a_broadcast_that_nobody_hears_is_refused_and_leaves_no_queue(
    app: Celery, make_publisher: MakePublisher, rabbitmq_url: str
) -> None:
    app.conf.task_queues = [Broadcast("to_all")]
    exchange = kombu.Exchange("to_all", type="fanout")
    on_channel(rabbitmq_url, lambda channel: exchange(channel).declare())
    one = outgoing(options={"queue": "to_all"})
    assert "NO_ROUTE" in make_publisher(app).publish([one]).refused.get(one, "it was sent")
