"""How many messages wait, by the broker's own count; and where a tick's message goes."""

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from kombu.common import Broadcast
from kombu.transport import memory, virtual

from celery_dbbeat.beat.delivery import Delivery
from celery_dbbeat.beat.message import Messages
from celery_dbbeat.beat.publisher import Publisher
from celery_dbbeat.errors import BrokerUnavailable
from tests.beat.conftest import MakeApp, MakePublisher
from tests.beat.outgoing import numbered, outgoing
from tests.beat.tasks import register
from tests.support.services import Redis


class TestDepth:
    def test_redis_counts(self, publisher: Publisher) -> None:
        publisher.publish(numbered(3))
        assert publisher.depth("celery") == 3
        # Asking changes nothing, and the connection is still good.
        assert publisher.depth("celery") == 3
        assert len(publisher.publish(numbered(2)).sent) == 2

    def test_redis_counts_every_priority(self, publisher: Publisher) -> None:
        publisher.publish([outgoing(options={"priority": number}) for number in (0, 3, 9)])
        assert publisher.depth("celery") == 3

    def test_no_queue_no_message(self, publisher: Publisher) -> None:
        assert publisher.depth("nobody has it") == 0

    def test_rabbitmq_counts_and_goes_on_after_a_queue_that_is_not_there(
        self, make_app: MakeApp, make_publisher: MakePublisher, rabbitmq_url: str
    ) -> None:
        publisher = make_publisher(make_app(rabbitmq_url))
        assert publisher.depth("celery") == 0
        batch = numbered(3)
        assert publisher.publish(batch).sent == batch
        assert publisher.depth("celery") == 3
        assert publisher.depth("nobody has it") == 0
        assert publisher.publish(numbered(1)).refused == {}
        assert publisher.depth("celery") == 4

    def test_a_transport_without_a_count_of_its_own_cannot_tell(
        self, make_app: MakeApp, make_publisher: MakePublisher, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publisher = make_publisher(make_app("memory://", task_default_queue="uncounted"))
        publisher.publish(numbered(2))
        assert publisher.depth("uncounted") == 2
        monkeypatch.setattr(memory.Channel, "_size", virtual.Channel._size)
        assert publisher.depth("uncounted") is None

    def test_a_broker_that_is_gone_is_unavailable(
        self, make_app: MakeApp, make_publisher: MakePublisher, own_redis: Redis
    ) -> None:
        publisher = make_publisher(make_app(own_redis.fresh_url()), 1)
        own_redis.kill()
        with pytest.raises(BrokerUnavailable):
            publisher.depth("celery")

    def test_a_file_system_counts_too(
        self, make_app: MakeApp, make_publisher: MakePublisher, tmp_path: Path
    ) -> None:
        options = dict.fromkeys(("data_folder_in", "data_folder_out"), str(tmp_path))
        options["control_folder"] = str(tmp_path / "control")
        publisher = make_publisher(make_app("filesystem://", broker_transport_options=options))
        publisher.publish(numbered(2))
        assert publisher.depth("celery") == 2


LATER = datetime(2030, 1, 1, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)


class TestDelivery:
    @pytest.fixture
    def messages(self, make_app: MakeApp) -> Messages:
        app = make_app(
            "memory://",
            task_routes={"routed.*": {"queue": "by_route"}},
            task_queues=None,
        )
        register(app)
        return Messages(app)

    @pytest.mark.parametrize(
        ("task", "options", "expected"),
        [
            ("tests.plain", {}, Delivery("celery")),
            ("tests.queue", {}, Delivery("of_the_class")),
            ("tests.queue", {"queue": "mine"}, Delivery("mine")),
            ("routed.somewhere", {}, Delivery("by_route")),
            ("routed.somewhere", {"countdown": 60}, Delivery("by_route", delay=MINUTE)),
            ("unknown", {"expires": 60}, Delivery("celery", MINUTE)),
            ("tests.expires", {}, Delivery("celery", 1.5 * MINUTE)),
            ("tests.expires", {"countdown": 60}, Delivery("celery", 1.5 * MINUTE, MINUTE)),
            ("tests.tagged", {"queue": "mine"}, Delivery("mine")),
            ("tests.plain", {"expires": LATER.isoformat()}, Delivery("celery", LATER)),
            ("tests.plain", {"eta": LATER.isoformat()}, Delivery("celery", delay=LATER)),
            ("tests.plain", {"exchange": "other", "routing_key": "k"}, Delivery()),
            ("tests.plain", {"expires": "nonsense"}, Delivery()),
            ("tests.plain", {"task_id": "not allowed"}, Delivery()),
        ],
    )
    def test_what_is_known(
        self, messages: Messages, task: str, options: dict[str, object], expected: Delivery
    ) -> None:
        assert messages.delivery_of(outgoing(task, options=options)) == expected

    def test_a_broadcast_has_no_queue_of_its_own(self, make_app: MakeApp) -> None:
        app = make_app("memory://", task_queues=[Broadcast("to_all")])
        assert Messages(app).delivery_of(outgoing(options={"queue": "to_all"})) == Delivery()
