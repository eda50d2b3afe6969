"""What becomes of a batch: by pipeline in Redis, and one by one with other transports."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kombu
import pytest
import redis
from celery import Celery
from kombu.common import Broadcast
from kombu.transport import memory

from celery_dbbeat import failpoints
from celery_dbbeat.beat.publisher import Publisher
from tests.beat.broker import redis_bindings, redis_client, redis_ids, redis_lists
from tests.beat.conftest import MakeApp, MakePublisher
from tests.beat.outgoing import ids, numbered, outgoing


@pytest.fixture
def app(make_app: MakeApp, redis_url: str) -> Celery:
    return make_app(redis_url)


def test_redis_gets_a_batch_of_several_windows_in_order(
    app: Celery, make_publisher: MakePublisher, redis_url: str
) -> None:
    batch = numbered(1500)
    outcome = make_publisher(app).publish(batch)
    assert outcome.sent == batch
    assert redis_ids(redis_url) == ids(batch)


def test_redis_gets_a_window_in_a_few_round_trips(
    app: Celery, make_publisher: MakePublisher, redis_url: str
) -> None:
    publisher = make_publisher(app)
    publisher.publish(numbered(1))
    with redis_client(redis_url) as client:
        before = reads(client)
        publisher.publish(numbered(500))
        assert reads(client) - before < 250


def reads(client: "redis.Redis") -> int:
    """How often the server read from a client."""
    stats: dict[str, Any] = client.info("stats")
    return int(stats["total_reads_processed"])


def test_ticks_with_events_are_in_order_too(
    app: Celery, make_publisher: MakePublisher, redis_url: str
) -> None:
    app.conf.task_send_sent_event = True
    batch = numbered(30)
    assert make_publisher(app).publish(batch).sent == batch
    assert redis_ids(redis_url) == ids(batch)


def test_nothing_arrives_before_the_whole_window_was_built(
    app: Celery, make_publisher: MakePublisher, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    look = lambda: seen.append(len(redis_ids(redis_url)))  # noqa: E731
    monkeypatch.setitem(failpoints._armed, "during_publish", look)
    make_publisher(app).publish(numbered(5))
    assert seen == [0] * 5
    assert len(redis_ids(redis_url)) == 5


def test_an_unknown_queue_is_impossible_and_the_others_go_out(
    app: Celery, make_publisher: MakePublisher, redis_url: str
) -> None:
    app.conf.task_create_missing_queues = False
    unknown = outgoing(options={"queue": "nobody_has_it"})
    before, after = numbered(2)
    outcome = make_publisher(app).publish([before, unknown, after])
    assert outcome.sent == [before, after]
    assert "nobody_has_it" in outcome.impossible[unknown]
    assert redis_ids(redis_url) == ids([before, after])


class NotToday(TypeError):
    """What a serializer may raise."""


def picky_dumps(value: object) -> str:
    text = json.dumps(value)
    if "forbidden" in text:
        raise NotToday("not this one")
    return text


def test_what_its_serializer_cannot_hold_is_impossible_and_the_others_go_out(
    app: Celery, make_publisher: MakePublisher, redis_url: str
) -> None:
    kombu.serialization.register("picky", picky_dumps, json.loads, "application/x-picky")
    batch = [outgoing(args=[word], options={"serializer": "picky"}) for word in ("a", "forbidden")]
    outcome = make_publisher(app).publish(batch)
    assert outcome.sent == batch[:1]
    assert "not this one" in outcome.impossible[batch[1]]
    assert redis_ids(redis_url) == ids(batch[:1])


@pytest.mark.parametrize("error", [ValueError, KeyError, LookupError, OSError, ConnectionError])
def test_a_router_that_fails_stops_only_its_own_ticks(
    error: type[Exception], make_app: MakeApp, make_publisher: MakePublisher, redis_url: str
) -> None:
    """Whatever it raises: a KeyError, or that a server of its own is gone, says nothing of ours."""
    app = make_app(redis_url, task_routes=(failing_router(error),))
    before, after = numbered(2)
    wrong = outgoing(args=["wrong"])
    publisher = make_publisher(app)
    outcome = publisher.publish([before, wrong, after])
    assert outcome.sent == [before, after]
    assert "the router's own" in (outcome.impossible | outcome.refused)[wrong]
    assert redis_ids(redis_url) == ids([before, after])


def failing_router(error: type[Exception]) -> Callable[..., None]:
    def route(name: str, args: list[Any], *_: object, **__: object) -> None:
        if args == ["wrong"]:
            raise error("the router's own")

    return route


def test_a_queue_that_redis_cannot_push_to_stops_only_its_own_ticks(
    app: Celery, make_publisher: MakePublisher, redis_url: str
) -> None:
    with redis_client(redis_url) as client:
        client.set("no_list", "somebody else's value")
    before, after = numbered(2)
    wrong = outgoing(options={"queue": "no_list"})
    outcome = make_publisher(app).publish([before, wrong, after])
    assert set(outcome.sent) == {before, after}
    assert wrong in outcome.refused
    assert set(redis_ids(redis_url)) == {*ids([before, after])}


def test_a_broadcast_is_not_declared_as_a_queue_of_beat(
    app: Celery, make_publisher: MakePublisher, redis_url: str
) -> None:
    app.conf.task_queues = [Broadcast("to_all")]
    one = outgoing(options={"queue": "to_all"})
    assert make_publisher(app).publish([one]).sent == [one]
    assert "_kombu.binding.to_all" not in redis_bindings(redis_url)


def test_without_ensure_nothing_is_sent(app: Celery, redis_url: str) -> None:
    batch = numbered(2)
    outcome = Publisher(app, 5).publish(batch)
    assert (outcome.sent, outcome.unsent) == ([], batch)
    assert redis_lists(redis_url) == {}


def test_an_empty_batch_is_no_batch(app: Celery, make_publisher: MakePublisher) -> None:
    outcome = make_publisher(app).publish([])
    assert (outcome.sent, outcome.unsent, outcome.broken) == ([], [], None)


def test_another_transport_gets_the_ticks_one_by_one_in_order(
    make_app: MakeApp, make_publisher: MakePublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app("memory://", task_default_queue="one_by_one")
    seen: list[int] = []
    look = lambda: seen.append(memory.Channel.queues["one_by_one"].qsize())  # noqa: E731
    monkeypatch.setitem(failpoints._armed, "during_publish", look)
    batch = numbered(5)
    wrong = outgoing(options={"serializer": "nobody has it"})
    outcome = make_publisher(app).publish([*batch[:3], wrong, *batch[3:]])
    assert outcome.sent == batch
    assert list(outcome.impossible) == [wrong]
    assert seen == [1, 2, 3, 3, 4, 5]
    assert in_memory(app, "one_by_one") == ids(batch)


def in_memory(app: Celery, queue: str) -> list[str]:
    with app.connection_for_read() as connection:
        simple = connection.SimpleQueue(queue)
        messages = [simple.get_nowait() for _ in range(simple.qsize())]
        simple.close()
    return [message.headers["id"] for message in messages]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the file system's transport puts messages; what is declared lies above."""
    folder = tmp_path / "control" / "messages"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def by_files(make_app: MakeApp, make_publisher: MakePublisher, folder: Path) -> Publisher:
    options = dict.fromkeys(("data_folder_in", "data_folder_out"), str(folder))
    options["control_folder"] = str(folder.parent)
    return make_publisher(make_app("filesystem://", broker_transport_options=options))


def test_a_transport_that_breaks_has_sent_what_came_before(
    by_files: Publisher, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove_after_three() -> None:
        if len(list(folder.glob("*.msg"))) == 3:
            shutil.rmtree(folder)

    monkeypatch.setitem(failpoints._armed, "during_publish", remove_after_three)
    batch = numbered(5)
    outcome = by_files.publish(batch)
    assert outcome.sent == batch[:3]
    assert {*outcome.unsent, *outcome.refused} == {*batch[3:]}
    folder.mkdir()
    by_files.ensure()
    assert by_files.publish(batch[3:]).sent == batch[3:]
    assert len(list(folder.glob("*.msg"))) == 2


def test_a_transport_that_cannot_declare_says_nothing_of_the_ticks(
    by_files: Publisher, folder: Path
) -> None:
    shutil.rmtree(folder.parent)
    batch = numbered(2)
    outcome = by_files.publish(batch)
    assert (outcome.sent, outcome.impossible) == ([], {})
    assert {*outcome.unsent, *outcome.refused} == {*batch}
