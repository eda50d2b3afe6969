"""What people can put into the tables by plain SQL hurts nobody else."""

from dataclasses import replace

import pytest

from tests.faults.app import TASK
from tests.faults.checker import check, schedules
from tests.faults.cluster import Cluster
from tests.support.waiting import wait_until

BAD = {
    "cron text": {"kind": "cron", "expression": "at noon, please"},
    "cron that never comes": {"kind": "cron", "expression": "0 0 30 2 *"},
    "crontab text": {"kind": "crontab", "expression": "* * * * *"},
    "crontab field": {"kind": "crontab", "expression": '{"minute": "99"}'},
    "interval of zero": {"expression": "0"},
    "interval backwards": {"expression": "-1"},
    "interval text": {"expression": "soon"},
    "interval not a number": {"expression": "nan"},
    "once text": {"kind": "once", "expression": "yesterday"},
    "solar event": {"kind": "solar", "expression": "teatime 51.5 0"},
    "unknown zone": {"kind": "cron", "expression": "* * * * *", "timezone": "Mars/Phobos"},
    "zone that is a path": {"timezone": "../../etc/passwd"},
    "too many arguments": {"args": "[1, 2, 3]"},
    "unknown argument": {"kwargs": '{"colour": "red"}'},
    "unknown serializer": {"options": '{"serializer": "runes"}'},
    "unknown compression": {"options": '{"compression": "hope"}'},
    "reserved option": {"options": '{"task_id": "mine"}'},
    "expires text": {"options": '{"expires": "never"}'},
    "headers that are none": {"options": '{"headers": [1]}'},
    "countdown text": {"options": '{"countdown": "three"}'},
    "impossible option": {"options": '{"queue": {"name": 5}}'},
}
#: Redis has no use for what AMQP cannot write down.
BAD_FOR_AMQP = {
    "priority text": {"options": '{"priority": "high"}'},
    "priority too high": {"options": '{"priority": 1000}'},
}
PUT = """
    INSERT INTO dbbeat_schedule (name, task, kind, expression, timezone, args, kwargs, options)
    VALUES (%(name)s, %(task)s, %(kind)s, %(expression)s, %(timezone)s, %(args)s::jsonb,
            %(kwargs)s::jsonb, %(options)s::jsonb)
"""
PLAIN = {
    "task": TASK,
    "kind": "interval",
    "expression": "1",
    "timezone": "UTC",
    "args": "[]",
    "kwargs": "{}",
    "options": "{}",
}
STATES = "SELECT name, state, reason FROM dbbeat_schedule WHERE name = ANY(%(names)s)"


@pytest.mark.parametrize(
    ("broker", "bad"), [("redis_url", BAD), ("rabbitmq_url", BAD | BAD_FOR_AMQP)]
)
def test_a_bad_schedule_is_invalid_with_a_reason_and_the_others_go_on(
    cluster: Cluster, request: pytest.FixtureRequest, broker: str, bad: dict[str, dict[str, str]]
) -> None:
    cluster.use_broker(request.getfixturevalue(broker))
    cluster.tables.add("good", count=10)
    cluster.start_and_wait()
    for name, wrong in bad.items():
        cluster.tables.rows(PUT, name=name, **{**PLAIN, **wrong})

    def found() -> dict[str, str]:
        rows = cluster.tables.rows(STATES, names=list(bad))
        return {row["name"]: row["state"] for row in rows if not row["reason"]}

    wait_until(lambda: not found(), 15, lambda: f"reasons for {found()}\n{cluster.logs()}")
    states = {row["state"] for row in cluster.tables.rows(STATES, names=list(bad))}
    assert states == {"invalid"}
    sources = "SELECT DISTINCT source FROM dbbeat_audit WHERE after ->> 'state' = 'invalid'"
    assert cluster.tables.value(sources) == "beat"
    cluster.tables.wait_until_sent(1)
    cluster.finish()


def test_a_message_that_the_broker_refuses_does_not_stop_the_others(
    cluster: Cluster, rabbitmq_url: str
) -> None:
    cluster.use_broker(rabbitmq_url)
    cluster.tables.add("good", count=10)
    nowhere = '{"exchange": "nowhere", "routing_key": "nobody"}'
    cluster.tables.rows(PUT, name="refused", **{**PLAIN, "options": nowhere})
    beat = cluster.start(DBBEAT_LEASE_TTL="2")
    beat.wait_for("of schedule refused was not taken")
    good = "SELECT count(*) FROM dbbeat_tick WHERE state = 'sent'"
    wait_until(lambda: cluster.tables.value(good) > 20, 15, beat.tail)
    assert cluster.tables.unsent() > 0
    cluster.tables.rows("DELETE FROM dbbeat_schedule WHERE name = 'refused'")
    cluster.finish()


def test_a_schedule_deleted_while_it_is_claimed(cluster: Cluster) -> None:
    ids = cluster.tables.add("doomed", every="0.5", count=20)
    cluster.tables.add("good", every="0.5", count=5)
    cluster.start(DBBEAT_FAILPOINTS="after_claim=sleep:0.2")
    cluster.wait_until_ready()
    cluster.tables.wait_until_sent(1)
    doomed = [replace(one, until=None) for one in schedules(cluster.tables) if one.id in ids]
    for one in doomed[:10]:
        cluster.tables.rows("DELETE FROM dbbeat_schedule WHERE id = %(id)s", id=one.id)
    cluster.tables.rows("DELETE FROM dbbeat_schedule WHERE name LIKE 'doomed-%%'", unused=0)
    gone_at = cluster.tables.value("SELECT clock_timestamp()")
    cluster.tables.wait_until_sent(1)
    cluster.finish()
    report = check(cluster.tables, cluster.inbox.collect(), doomed)
    report.check()
    after = (
        "SELECT count(*) FROM dbbeat_tick WHERE schedule_id = ANY(%(ids)s) AND nominal_at > %(at)s"
    )
    assert cluster.tables.value(after, ids=ids, at=gone_at) == 0


def test_a_failing_step_is_tried_again_and_beat_stays(cluster: Cluster) -> None:
    cluster.tables.add("steady", every="0.5", count=10)
    beat = cluster.start(DBBEAT_FAILPOINTS="after_plan=raise@2,after_record=raise@9")
    cluster.wait_until_ready()
    beat.wait_for("after_plan; trying again")
    beat.wait_for("after_record; trying again")
    cluster.tables.wait_until_sent(1)
    cluster.finish()
    cluster.end(beat)
