"""A broker that dies, hangs or comes back: nothing is said to be sent that may not have arrived."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
import redis
from celery import Celery

from celery_dbbeat import failpoints
from celery_dbbeat.beat.publisher import Outcome, Publisher
from celery_dbbeat.errors import BrokerUnavailable
from tests.beat.broker import amqp_ids, redis_ids
from tests.beat.conftest import MakeApp, MakePublisher
from tests.beat.outgoing import ids, numbered
from tests.support.proxy import Proxy
from tests.support.server import LOOPBACK
from tests.support.services import RabbitMQ, Redis, free_port
from tests.support.waiting import wait_until

TIMEOUT = 1.0
#: What a slow machine may add.
SLACK = 1.0


@pytest.fixture(params=["redis_url", "rabbitmq_url"])
def broker_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(request.param)
    return url


@pytest.fixture
def proxy(broker_url: str) -> Iterator[Proxy]:
    with Proxy.to(broker_url) as proxy:
        yield proxy


@pytest.fixture
def app(make_app: MakeApp, proxy: Proxy, broker_url: str) -> Celery:
    return make_app(proxy.url(broker_url))


@pytest.fixture
def publisher(app: Celery, make_publisher: MakePublisher) -> Publisher:
    publisher = make_publisher(app, TIMEOUT)
    batch = numbered(3)
    assert publisher.publish(batch).sent == batch
    return publisher


def arrived(url: str) -> list[str]:
    return redis_ids(url) if url.startswith("redis") else amqp_ids(url)


def assert_nothing_sent(outcome: Outcome, batch: list[object]) -> None:
    assert outcome.unsent == batch
    assert (outcome.sent, outcome.refused, outcome.impossible) == ([], {}, {})
    assert outcome.broken is not None


def assert_works_again(publisher: Publisher, url: str) -> None:
    publisher.ensure()
    batch = numbered(3)
    assert publisher.publish(batch).sent == batch
    assert arrived(url)[-3:] == ids(batch)


def within(seconds: float, act: Callable[[], object]) -> None:
    started = time.monotonic()
    act()
    assert time.monotonic() - started < seconds


def on_nth(place: int, act: Callable[[], None]) -> Callable[[], None]:
    """Acts when called the so-manieth time."""
    left = [place]

    def hit() -> None:
        left[0] -= 1
        if left[0] == 0:
            act()

    return hit


def test_a_connection_cut_between_batches_is_noticed_before_the_next(
    publisher: Publisher, proxy: Proxy, broker_url: str
) -> None:
    proxy.cut()
    with pytest.raises(BrokerUnavailable, match="the broker cannot be reached"):
        publisher.ensure()
    proxy.heal()
    assert_works_again(publisher, broker_url)


@pytest.mark.parametrize("size", [1, 2, 50])
def test_a_connection_cut_unnoticed_leaves_the_batch_unsent(
    size: int, publisher: Publisher, proxy: Proxy, broker_url: str
) -> None:
    before = arrived(broker_url)
    proxy.cut()
    batch = numbered(size)
    assert_nothing_sent(publisher.publish(batch), [*batch])
    proxy.heal()
    assert_works_again(publisher, broker_url)
    assert not {*ids(batch)} & {*before}


def test_a_connection_cut_in_a_batch_leaves_unsent_what_is_not_known(
    publisher: Publisher, proxy: Proxy, broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two windows the first is known to have arrived, the second is not."""
    batch = numbered(1500)
    monkeypatch.setitem(failpoints._armed, "during_publish", on_nth(1250, proxy.cut))
    outcome = publisher.publish(batch)
    assert outcome.sent == batch[:1000]
    assert outcome.unsent == batch[1000:]
    assert outcome.broken is not None
    assert {*ids(outcome.sent)} <= {*arrived(broker_url)}
    proxy.heal()
    assert_works_again(publisher, broker_url)


def test_a_deaf_broker_does_not_hold_up_a_batch(
    publisher: Publisher, proxy: Proxy, broker_url: str
) -> None:
    arrived(broker_url)
    proxy.deaf()
    batch = numbered(50)
    within(TIMEOUT + SLACK, lambda: assert_nothing_sent(publisher.publish(batch), [*batch]))
    assert not {*ids(batch)} & {*arrived(broker_url)}
    proxy.heal()
    assert_works_again(publisher, broker_url)


def test_a_broker_that_goes_deaf_in_a_batch_does_not_hold_it_up(
    publisher: Publisher, proxy: Proxy, broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = numbered(50)
    monkeypatch.setitem(failpoints._armed, "during_publish", on_nth(25, proxy.deaf))
    within(TIMEOUT + SLACK, lambda: assert_nothing_sent(publisher.publish(batch), [*batch]))


def test_a_deaf_broker_does_not_hold_up_the_connecting(app: Celery, proxy: Proxy) -> None:
    proxy.deaf()
    publisher = Publisher(app, TIMEOUT)

    def connect() -> None:
        with pytest.raises(BrokerUnavailable):
            publisher.ensure()

    within(TIMEOUT + SLACK, connect)
    publisher.close()


def test_a_deaf_broker_does_not_hold_up_the_probing(publisher: Publisher, proxy: Proxy) -> None:
    """RabbitMQ is not asked, only listened to; Redis has to answer."""
    proxy.deaf()

    def probe() -> None:
        with suppress(BrokerUnavailable):
            publisher.ensure()

    within(TIMEOUT + SLACK, probe)


def test_closing_does_not_wait_for_a_deaf_broker(publisher: Publisher, proxy: Proxy) -> None:
    proxy.deaf()
    within(TIMEOUT + SLACK, publisher.close)


def test_a_slow_broker_is_no_broken_one(publisher: Publisher, proxy: Proxy) -> None:
    proxy.slow(TIMEOUT / 10)
    batch = numbered(20)
    assert publisher.publish(batch).sent == batch


def test_another_broker_of_the_url_stands_in(
    make_app: MakeApp, make_publisher: MakePublisher, redis_url: str
) -> None:
    app = make_app(f"redis://{LOOPBACK}:{free_port()}/0;{redis_url}")
    assert_works_again(make_publisher(app, TIMEOUT), redis_url)


def test_a_killed_redis_has_got_nothing_and_works_when_it_is_back(
    own_redis: Redis, make_app: MakeApp, make_publisher: MakePublisher
) -> None:
    publisher = make_publisher(make_app(own_redis.url), TIMEOUT)
    kept = numbered(3)
    assert publisher.publish(kept).sent == kept
    own_redis.kill()
    batch = numbered(3)
    assert_nothing_sent(publisher.publish(batch), [*batch])
    with pytest.raises(BrokerUnavailable):
        publisher.ensure()
    own_redis.start()
    assert_works_again(publisher, own_redis.url)
    assert redis_ids(own_redis.url)[:3] == ids(kept)


def test_a_redis_killed_in_a_batch_has_got_nothing(
    own_redis: Redis,
    make_app: MakeApp,
    make_publisher: MakePublisher,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    publisher = make_publisher(make_app(own_redis.url), TIMEOUT)
    monkeypatch.setitem(failpoints._armed, "during_publish", on_nth(5, own_redis.kill))
    batch = numbered(10)
    assert_nothing_sent(publisher.publish(batch), [*batch])
    own_redis.start()
    assert redis_ids(own_redis.url) == []
    assert_works_again(publisher, own_redis.url)


def test_a_rabbitmq_stopped_in_order_and_one_killed_are_noticed(
    own_rabbitmq: RabbitMQ, make_app: MakeApp, make_publisher: MakePublisher
) -> None:
    publisher = make_publisher(make_app(own_rabbitmq.url), TIMEOUT)
    first, second = numbered(3), numbered(3)
    assert publisher.publish(first).sent == first
    own_rabbitmq.stop()
    assert_nothing_sent(publisher.publish(second), [*second])
    with pytest.raises(BrokerUnavailable):
        publisher.ensure()
    own_rabbitmq.start()
    publisher.ensure()
    assert publisher.publish(second).sent == second
    own_rabbitmq.kill()
    # A thread of the dead may hold its sockets for a moment longer.
    wait_until(lambda: _unavailable(publisher), 5)


def _unavailable(publisher: Publisher) -> bool:
    try:
        publisher.ensure()
    except BrokerUnavailable:
        return True
    return False


@pytest.mark.parametrize(
    "cause", [("CONFIG", "SET", "maxmemory", "1"), ("REPLICAOF", LOOPBACK, "1")]
)
def test_a_redis_that_takes_no_writes_is_as_good_as_none(
    cause: tuple[str, ...], own_redis: Redis, make_app: MakeApp, make_publisher: MakePublisher
) -> None:
    """It is full, or became a replica. No message is to blame, so none is tried by itself."""
    publisher = make_publisher(make_app(own_redis.url), TIMEOUT)
    publisher.publish(numbered(1))
    with redis.Redis.from_url(own_redis.url) as client:
        client.execute_command(*cause)
        batch = numbered(50)
        assert_nothing_sent(publisher.publish(batch), [*batch])
        client.execute_command("CONFIG", "SET", "maxmemory", "0")
        client.execute_command("REPLICAOF", "NO", "ONE")
    assert_works_again(publisher, own_redis.url)
