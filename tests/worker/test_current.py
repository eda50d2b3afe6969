"""A task learns for which tick it runs."""

from datetime import datetime, timezone
from uuid import UUID, uuid4

import pytest

from celery_dbbeat import current_tick
from celery_dbbeat.beat.message import headers_of
from celery_dbbeat.rules.schedule import Schedule
from celery_dbbeat.rules.tick import Tick
from celery_dbbeat.store.cursors import Outgoing
from celery_dbbeat.worker.current import CurrentTick, read_tick
from tests.worker.desk import NOMINAL, Desk


def test_everything_about_it(desk: Desk) -> None:
    task_id = uuid4()
    state, tick = desk.deliver(current_tick, task_id)
    expected = CurrentTick("nightly", NOMINAL, 1, "scheduled", str(task_id))
    assert (state, tick) == ("SUCCESS", expected)
    assert tick.idempotency_key == str(task_id)
    assert tick.nominal_local == NOMINAL
    assert current_tick() is None


def test_the_attempt_is_that_of_the_run(desk: Desk) -> None:
    task_id = uuid4()

    def fail() -> None:
        raise LookupError

    desk.deliver(fail, task_id)
    _, tick = desk.deliver(current_tick, task_id, attempt=4)
    assert (tick.attempt, tick.idempotency_key) == (4, str(task_id))


def test_on_the_clocks_of_the_schedule() -> None:
    nominal = datetime(2026, 7, 1, 7, tzinfo=timezone.utc)
    schedule = Schedule(UUID(int=1), 1, "x", "t", "cron", "0 9 * * *", timezone="Europe/Berlin")
    headers = headers_of(Outgoing(schedule, Tick(UUID(int=2), nominal, nominal)))
    tick = read_tick(str(UUID(int=2)), headers["dbbeat"])
    assert tick is not None
    assert tick.nominal_local.isoformat() == "2026-07-01T09:00:00+02:00"
    plain = Schedule(UUID(int=1), 1, "x", "t", "cron", "0 9 * * *")
    assert (
        "timezone" not in headers_of(Outgoing(plain, Tick(UUID(int=2), nominal, nominal)))["dbbeat"]
    )


@pytest.mark.parametrize(
    "header",
    [None, {}, "x", {"schedule": "x", "nominal": "2026-01-01T00:00:00", "kind": "k", "attempt": 1}],
)
def test_what_cannot_be_read_is_none(header: object) -> None:
    assert read_tick(str(uuid4()), header) is None


def test_an_error_that_cannot_be_shown_is_a_failure_like_any_other(desk: Desk) -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def task() -> None:
        raise Unspeakable

    task_id = uuid4()
    assert desk.deliver(task, task_id)[0] == "FAILURE"
    run = desk.run_of(task_id)
    assert (run["status"], run["error"]) == ("failed", "Unspeakable, which cannot be shown")
