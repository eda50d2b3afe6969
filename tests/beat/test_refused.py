"""What the broker refuses stays recorded, and is told in one line a batch and reason."""

from contextlib import closing

import pytest

from celery_dbbeat.settings import Settings
from tests.beat.conftest import MakeApp, MakePublisher
from tests.beat.leader import Leader
from tests.store.kit import DAILY, Person


def test_a_batch_that_is_refused_is_one_line(
    make_app: MakeApp,
    make_publisher: MakePublisher,
    rabbitmq_url: str,
    settings: Settings,
    person: Person,
    caplog: pytest.LogCaptureFixture,
) -> None:
    nowhere = '{"exchange": "amq.direct", "routing_key": "nobody"}'
    person.add_due("a", "b", "c", **{**DAILY, "options": nowhere})
    publisher = make_publisher(make_app(rabbitmq_url))
    with closing(Leader(settings.url, publisher, settings, "a")) as leader:
        leader.dispatch()
    (told,) = [record.message for record in caplog.records if "was not taken" in record.message]
    assert ", as 2 others, was not taken: no queue takes it" in told
    assert person.value("SELECT count(*) FROM dbbeat_tick WHERE state = 'recorded'") == 3
