"""What the publisher sends is what `apply_async` would have sent, field by field."""

from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery

from celery_dbbeat.store.cursors import Outgoing
from tests.beat.broker import bind_in_redis, redis_bindings, redis_lists
from tests.beat.cases import CASES
from tests.beat.comparison import Case, assert_same, recorded_signals, send_as_celery
from tests.beat.conftest import MakeApp, MakePublisher
from tests.beat.outgoing import outgoing
from tests.beat.tasks import register
from tests.support.services import flush

Send = Callable[[Outgoing], None]

#: Exchanges that the cases name and that Celery does not declare.
BOUND = [("an_exchange", "a.key"), ("class_exchange", "class.key")]

all_cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


@pytest.fixture
def app_of(make_app: MakeApp, redis_url: str) -> Callable[[Case], Celery]:
    def make(case: Case) -> Celery:
        app = make_app(redis_url, **case.settings)
        register(app)
        return app

    return make


@pytest.fixture
def sends(make_publisher: MakePublisher) -> Callable[[Celery, Case], tuple[Send, Send]]:
    """The two ways to send: ours, and Celery's own."""

    def make(app: Celery, case: Case) -> tuple[Send, Send]:
        publisher = make_publisher(app)

        def ours(one: Outgoing) -> None:
            outcome = publisher.publish([one])
            assert outcome.sent == [one], outcome

        return ours, lambda one: send_as_celery(app, case, one)

    return make


def left_by(send: Send, one: Outgoing, url: str) -> dict[str, Any]:
    flush(url)
    for exchange, key in BOUND:
        bind_in_redis(url, exchange, key, "bound")
    send(one)
    queues = redis_lists(url)
    assert queues, "nothing was sent"
    return {"queues": queues, "bindings": redis_bindings(url)}


@all_cases
def test_the_message_is_the_one_of_apply_async(
    case: Case,
    app_of: Callable[[Case], Celery],
    sends: Callable[[Celery, Case], tuple[Send, Send]],
    redis_url: str,
) -> None:
    one = case.outgoing()
    # An app each: what one has declared, the other would not declare again.
    ours, _ = sends(app_of(case), case)
    _, theirs = sends(app_of(case), case)
    expected = left_by(theirs, one, redis_url)
    assert_same(without_oid(left_by(ours, one, redis_url)), without_oid(expected))


@all_cases
def test_signals_fire_with_the_arguments_of_apply_async(
    case: Case,
    app_of: Callable[[Case], Celery],
    sends: Callable[[Celery, Case], tuple[Send, Send]],
) -> None:
    ours, theirs = sends(app_of(case), case)
    one = case.outgoing()
    with recorded_signals() as expected:
        theirs(one)
    with recorded_signals() as seen:
        ours(one)
    assert [name for name, _ in seen] == ["before", "after", "sent"]
    assert_same(seen, expected)


def without_oid(value: Any) -> Any:  # noqa: ANN401
    """The same without `reply_to`, which names the app."""
    if isinstance(value, dict):
        return {key: without_oid(inner) for key, inner in value.items() if key != "reply_to"}
    return [without_oid(inner) for inner in value] if isinstance(value, list) else value


def test_the_reply_goes_where_apply_async_says(
    app_of: Callable[[Case], Celery], make_publisher: MakePublisher, redis_url: str
) -> None:
    app = app_of(Case())
    make_publisher(app).publish([outgoing()])
    [message] = redis_lists(redis_url)["celery"]
    assert message["properties"]["reply_to"] == app.thread_oid
