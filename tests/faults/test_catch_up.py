"""The leader is killed while late ticks go out: none lost, none twice, all in order."""

from collections import defaultdict
from datetime import datetime
from uuid import UUID

import pytest

from tests.faults.cluster import Cluster
from tests.support.waiting import wait_until

RATE = "80"
#: Nobody has dispatched these for five minutes; the first four are later than a minute.
AWAY = """
    UPDATE dbbeat_schedule SET catch_up = 'all', misfire_grace = NULL,
        created_at = now() - interval '5 minutes';
    UPDATE dbbeat_cursor SET replan_from = NULL, due_at = now() - interval '5 minutes',
        nominal_at = to_timestamp(floor(extract(epoch FROM now() - interval '5 minutes') / 10 + 1) * 10);
"""  # noqa: E501
LATE = "SELECT count(*) FROM dbbeat_cursor WHERE waits_since IS NOT NULL"
SENT = "SELECT count(*) FROM dbbeat_tick WHERE kind = 'catch_up' AND state = 'sent'"


def add_late(cluster: Cluster, count: int = 10) -> None:
    cluster.tables.add("late", every="10", count=count)
    cluster.tables.rows(AWAY)


def check_order(cluster: Cluster) -> None:
    """Of each schedule, the first message of a fire time came before those of later ones."""
    first: dict[tuple[str, datetime], int] = {}
    for place, message in enumerate(cluster.inbox.received):
        first.setdefault((message.schedule, message.nominal_at), place)
    by_schedule = defaultdict(list)
    for schedule, nominal in sorted(first, key=lambda key: first[key]):
        by_schedule[schedule].append(nominal)
    for schedule, nominals in by_schedule.items():
        assert nominals == sorted(nominals), schedule


def wait_for(cluster: Cluster, number: int) -> None:
    wait_until(lambda: cluster.tables.value(SENT) >= number, 30, cluster.logs)


@pytest.mark.parametrize("point", ["after_record", "during_publish", "before_mark"])
def test_killed_at_a_step(cluster: Cluster, point: str) -> None:
    add_late(cluster)
    nth = 20 if point == "during_publish" else 8
    doomed = cluster.start(DBBEAT_CATCH_UP_RATE=RATE, DBBEAT_FAILPOINTS=f"{point}=kill@{nth}")
    cluster.start(DBBEAT_CATCH_UP_RATE=RATE)
    cluster.forget_ended(doomed, -9, 30)
    wait_until(lambda: cluster.tables.value(LATE) == 0, 40, cluster.logs)
    cluster.finish()
    check_order(cluster)


def test_killed_again_and_again(cluster: Cluster) -> None:
    add_late(cluster)
    settings = {"DBBEAT_CATCH_UP_RATE": RATE}
    for _ in range(3):
        cluster.start(**settings)
    cluster.wait_until_ready()
    for number in (20, 80, 140):
        wait_for(cluster, number)
        cluster.kill(cluster.leader())
        cluster.start(**settings)
    wait_until(lambda: cluster.tables.value(LATE) == 0, 40, cluster.logs)
    cluster.finish()
    check_order(cluster)
    kinds: dict[UUID, str] = {one.task_id: one.kind for one in cluster.inbox.received}
    assert set(kinds.values()) <= {"catch_up", "recovery", "scheduled"}
