"""A backfill by real beats and a real worker: the leader is killed in the middle of it."""

from datetime import datetime, timedelta, timezone

import pytest
from celery import Celery

from celery_dbbeat import Schedules
from tests.support.waiting import wait_until
from tests.worker.fleet import Fleet

HOUR = timedelta(hours=1)
START = datetime.now(timezone.utc).replace(minute=0, second=0, microsecond=0) - 100 * HOUR
NUMBER = 12
PLANNED = "SELECT count(*) FROM dbbeat_cursor WHERE replan_from IS NULL"
EFFECTS = """
    SELECT t.nominal_at FROM effect e JOIN dbbeat_tick t ON t.task_id = e.task_id ORDER BY e.id
"""


@pytest.mark.parametrize("point", ["in_slice@9", "after_publish@5"])
def test_each_fire_time_has_its_one_effect_in_order(
    fleet: Fleet, database_url: str, point: str
) -> None:
    app = Celery("shop", broker="memory://", set_as_current=False)
    app.conf.update(dbbeat_url=database_url, dbbeat_guard=True)
    schedules = Schedules(app)
    fleet.add("hourly", "exactly", every="3600")
    doomed = fleet.start(DBBEAT_FAILPOINTS=point.replace("@", "=kill@"))
    wait_until(fleet.tables.leaders, 20, doomed.tail)
    fleet.start_worker()
    fleet.start()
    wait_until(lambda: fleet.tables.value(PLANNED), 20)
    number = schedules.backfill("hourly", START, START + (NUMBER - 1) * HOUR).id
    fleet.forget_ended(doomed, -9)

    def ended() -> bool:
        return schedules.show_backfill(number).state == "finished"

    wait_until(ended, 60, lambda: f"{schedules.show_backfill(number)}\n{fleet.logs()}", every=0.1)
    found = schedules.show_backfill(number)
    assert (found.sent, found.done, found.failed, found.open) == (NUMBER, NUMBER, 0, 0)
    effects = [row["nominal_at"] for row in fleet.tables.rows(EFFECTS)]
    assert effects == [START + hour * HOUR for hour in range(NUMBER)]
