"""What else belongs to a message: what may not be sent, what leaks, who else is told."""

import base64
import json
import re
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from typing import Any, cast

import pytest
from celery import Celery, Task
from celery.signals import before_task_publish

from celery_dbbeat.store.cursors import Outgoing
from tests.beat.broker import redis_client, redis_lists
from tests.beat.comparison import Case, assert_same, send_as_celery
from tests.beat.conftest import MakeApp, MakePublisher
from tests.beat.outgoing import numbered, outgoing
from tests.beat.tasks import register
from tests.support.waiting import wait_until

#: The first is built the short way, the second by Celery's `apply_async`.
BOTH_WAYS: list[dict[str, Any]] = [{}, {"shadow": "another name"}]


@pytest.fixture
def app(make_app: MakeApp, redis_url: str) -> Celery:
    app = make_app(redis_url)
    register(app)
    return app


REFUSED: dict[str, tuple[Outgoing, str]] = {
    "too few arguments": (outgoing("tests.two"), "TypeError: .*first"),
    "too many arguments": (outgoing("tests.two", args=[1, 2, 3]), "TypeError"),
    "unknown keyword": (outgoing("tests.two", args=[1], kwargs={"third": 3}), "TypeError"),
    "itself of a bound task": (outgoing("tests.bound"), "TypeError"),
    "soft limit over the hard": (outgoing("tests.impossible_limits"), "ValueError: soft_time"),
    "a task id": (outgoing(options={"task_id": "mine"}), "ScheduleError: options has task_id"),
    "a producer": (outgoing(options={"producer": 1, "router": 2}), "has producer, router"),
    "options in a list": (outgoing(options=["queue"]), "ScheduleError: options is .* JSON object"),
    "arguments in an object": (outgoing(args={"a": 1}), "ScheduleError: args is .* JSON array"),
    "keywords in a list": (outgoing(kwargs=["a"]), "ScheduleError: kwargs is .* JSON object"),
    "serializer nobody has": (outgoing(options={"serializer": "x"}), "SerializerNotInstalled"),
    "compression nobody has": (outgoing(options={"compression": "x"}), "KeyError: 'x'"),
    "expires that is no time": (outgoing(options={"expires": "soon"}), "options.expires is"),
    "a limit that ends workers": (outgoing(options={"time_limit": "x"}), "options.time_limit is"),
    "an id by another way": (outgoing(options={"headers": {"id": 1}}), "options.headers is"),
    "countdown beyond all time": (outgoing(options={"countdown": 1e30}), "OverflowError"),
}


@pytest.mark.parametrize(("wrong", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_apply_async_would_refuse_is_impossible_and_the_others_go_out(
    wrong: Outgoing, reason: str, app: Celery, make_publisher: MakePublisher, redis_url: str
) -> None:
    before, after = numbered(2)
    outcome = make_publisher(app).publish([before, wrong, after])
    assert outcome.sent == [before, after]
    assert list(outcome.impossible) == [wrong]
    assert re.search(reason, outcome.impossible[wrong])
    assert len(redis_lists(redis_url)["celery"]) == 2


def test_wrong_arguments_of_a_task_this_process_does_not_know_are_sent(
    app: Celery, make_publisher: MakePublisher
) -> None:
    one = outgoing("elsewhere.two", args=[1, 2, 3])
    assert make_publisher(app).publish([one]).sent == [one]


@pytest.mark.parametrize("options", BOTH_WAYS)
def test_what_a_receiver_changes_is_sent_and_stays_with_its_message(
    options: dict[str, Any], app: Celery, make_publisher: MakePublisher, redis_url: str
) -> None:
    seen: list[int] = []

    def change(headers: dict[str, Any], body: Any, **_: object) -> None:  # noqa: ANN401
        seen.append(1)
        headers["mine"]["count"] += len(seen)
        headers["seen"] = len(seen)
        body[0].append("added")

    shared = {**options, "headers": {"mine": {"count": 0}}}
    batch = [outgoing(args=["same"], options=shared) for _ in range(2)]
    before_task_publish.connect(change)
    try:
        assert make_publisher(app).publish(batch).sent == batch
    finally:
        before_task_publish.disconnect(change)
    messages = redis_lists(redis_url)["celery"]
    assert [message["headers"]["seen"] for message in messages] == [1, 2]
    assert [message["headers"]["mine"] for message in messages] == [{"count": 1}, {"count": 2}]
    assert all(json.loads(message["body"])[0] == ["same", "added"] for message in messages)


@pytest.mark.parametrize("patched", [(Task, "apply_async"), (Celery, "send_task")])
def test_instrumentation_of_celery_itself_sees_each_send(
    patched: tuple[type, str],
    app: Celery,
    make_publisher: MakePublisher,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owner, name = patched
    original: Callable[..., Any] = getattr(owner, name)

    def traced(self: object, *args: object, **options: Any) -> object:  # noqa: ANN401
        options["headers"] = {**options["headers"], "trace": "an id"}
        return original(self, *args, **options)

    monkeypatch.setattr(owner, name, traced)
    make_publisher(app).publish([outgoing()])
    [message] = redis_lists(redis_url)["celery"]
    assert message["headers"]["trace"] == "an id"


@pytest.mark.parametrize("case", [Case(args=["me"]), Case(args=["me"], options={"priority": 3})])
def test_the_event_task_sent_is_the_one_of_apply_async(
    case: Case, app: Celery, make_publisher: MakePublisher, redis_url: str
) -> None:
    app.conf.task_send_sent_event = True
    one = case.outgoing()
    publisher = make_publisher(app)
    expected = events_during(lambda: send_as_celery(app, case, one), redis_url)
    events = events_during(lambda: publisher.publish([one]), redis_url)
    assert [event["type"] for event in events] == ["task-sent"]
    assert_same(events, expected)


def events_during(act: Callable[[], object], url: str) -> list[dict[str, Any]]:
    """The bodies of the events published meanwhile; Redis tells them to who listens."""
    with redis_client(url) as client, closing(cast(Any, client).pubsub()) as listener:
        listener.psubscribe("*celeryev*")
        assert listener.get_message(timeout=5)
        act()
        return [_body(wait_until(lambda: listener.get_message(timeout=1), 5, "an event"))]


def _body(heard: dict[str, Any]) -> dict[str, Any]:
    text = json.loads(heard["data"])["body"]
    return cast(dict[str, Any], json.loads(base64.b64decode(text)))


@pytest.mark.parametrize("options", BOTH_WAYS)
def test_nobody_listens_for_the_results(
    options: dict[str, Any], make_app: MakeApp, make_publisher: MakePublisher, redis_url: str
) -> None:
    app = make_app(redis_url, result_backend=redis_url)
    register(app)
    batch = numbered(3, options=options)
    assert make_publisher(app).publish(batch).sent == batch
    with redis_client(redis_url) as client:
        assert client.pubsub_channels("celery-task-meta-*") == []


def test_a_plain_send_does_listen_for_the_result(make_app: MakeApp, redis_url: str) -> None:
    """So that the test above would see it."""
    app = make_app(redis_url, result_backend=redis_url)
    result = app.send_task("elsewhere.task")
    with redis_client(redis_url) as client:
        assert client.pubsub_channels("celery-task-meta-*")
    result.forget()
    app.backend.result_consumer.stop()


def test_long_arguments_are_not_kept(app: Celery, make_publisher: MakePublisher) -> None:
    """Thousands of schedules with long arguments would fill the memory of beat."""
    publisher = make_publisher(app)
    publisher.publish(numbered(1))
    tracemalloc.start()
    try:
        for number in range(20):
            publisher.publish([outgoing("elsewhere.long", args=[number, "x" * 1_000_000])])
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 10_000_000
