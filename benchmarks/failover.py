"""The leader goes: how late ticks get until another replica has taken over.

A tick that nobody could send while the leader was gone may be coalesced with a newer one. So what
counts is the silence: how long after a fire time nothing as new as it had arrived.
"""

import itertools
import signal
import time
from contextlib import closing

import psycopg
from psycopg.rows import TupleRow

from benchmarks.beats import Setting, beats, start_beat
from benchmarks.inbox import Message, RedisInbox
from benchmarks.report import Report, milliseconds, quantile
from benchmarks.schedules import insert
from benchmarks.servers import Servers, connect, value
from tests.support.processes import Process
from tests.support.waiting import wait_until

EVERY = 0.2
REPLICAS = 3
WATCHED = 5.0
WAYS = ("SIGTERM", "SIGKILL")
_LEADER = "SELECT r.pid FROM dbbeat_lease l JOIN dbbeat_replica r ON r.id = l.holder"


def run(servers: Servers, repetitions: int) -> Report:
    """End the leader, in each way so many times; each time a new replica comes instead."""
    report = Report(
        "failover",
        f"the leader of {REPLICAS} ends, a tick each {EVERY:g} s, {repetitions} times each way",
        ("", "p50", "max"),
    )
    setting = Setting("celery-dbbeat", servers.fresh_redis(), servers.fresh_database())
    insert(setting.database_url, 1, time.time(), every=EVERY)
    messages: list[Message] = []
    with (
        beats(setting, REPLICAS) as running,
        connect(setting.database_url) as connection,
        closing(RedisInbox(setting.broker_url)) as arrivals,
    ):
        time.sleep(4)
        arrivals.drain()
        for way in WAYS:
            late = []
            for _ in range(repetitions):
                found = _end_leader(way, running, connection, arrivals)
                late.append(_silence(found))
                messages += found
                running.append(start_beat(setting))
                messages += arrivals.collect(time.time() + 4)
            _add(report, way, late)
        wait_until(lambda: not _unsent(connection), 30, "all that was recorded to be sent")
        report.wrong = _wrong(connection, messages)
    return report


def _end_leader(
    way: str,
    running: list[Process],
    connection: psycopg.Connection[TupleRow],
    arrivals: RedisInbox,
) -> list[Message]:
    pid = value(connection, _LEADER)
    leader = next(process for process in running if process.pid == pid)
    before = arrivals.collect(time.time() + 1)
    running.remove(leader)
    # Its end is not waited for: what arrives meanwhile is to be stamped as it arrives.
    leader.send(signal.Signals[way], only_leader=True)
    after = arrivals.collect(time.time() + WATCHED)
    leader.kill9()
    return before + after


def _silence(messages: list[Message]) -> float:
    pairs = itertools.pairwise(messages)
    gaps = [after.arrived_at - before.nominal_at - EVERY for before, after in pairs]
    return max([*gaps, *(message.late for message in messages)])


def _add(report: Report, way: str, late: list[float]) -> None:
    middle, worst = quantile(late, 0.5), max(late)
    report.rows.append((way, milliseconds(middle), milliseconds(worst)))
    report.headlines.append(f"{way}: late by {milliseconds(worst)} at the most")
    report.figures[way] = late


def _unsent(connection: psycopg.Connection[TupleRow]) -> float:
    return value(connection, "SELECT count(*) FROM dbbeat_tick WHERE state = 'recorded'")


def _wrong(connection: psycopg.Connection[TupleRow], messages: list[Message]) -> list[str]:
    """Every fire time has to be in the ledger, and to have been sent under one id."""
    missing = value(
        connection,
        "SELECT round(extract(epoch FROM max(coalesce(last_at, nominal_at)) - min(nominal_at))"
        " / %s) + 1 - sum(count) FROM dbbeat_tick",
        EVERY,
    )
    ids: dict[float, set[str]] = {}
    for message in messages:
        ids.setdefault(message.nominal_at, set()).add(message.headers["id"])
    doubled = sum(len(found) > 1 for found in ids.values())
    wrong = [f"{missing:.0f} fire times are not in the ledger"] if missing else []
    return [*wrong, f"{doubled} fire times sent under two ids"] if doubled else wrong
