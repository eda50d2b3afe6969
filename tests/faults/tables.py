"""What people do to the tables by plain SQL, and what the tables say of beat."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import dict_row

from celery_dbbeat.store.completeness import Completeness, check
from celery_dbbeat.store.database import Database
from tests.faults.app import TASK
from tests.support.postgres import psycopg_url
from tests.support.waiting import wait_until

ADD = """
    INSERT INTO dbbeat_schedule (name, task, kind, expression)
    SELECT %(name)s || '-' || i, %(task)s, 'interval', %(every)s
    FROM generate_series(1, %(count)s::int) AS i RETURNING id
"""
# The schedule that is furthest behind, by the newest fire time of it that was sent.
BEHIND = """
    SELECT min(newest) AS sent_until FROM (
        SELECT (SELECT max(nominal_at) FROM dbbeat_tick t
                WHERE t.schedule_id = s.id AND t.state = 'sent') AS newest
        FROM dbbeat_schedule s WHERE s.state = 'active') AS by_schedule
"""
OVERDUE = "SELECT count(*) AS n FROM dbbeat_cursor WHERE due_at < now() - interval '0.5 s'"
UNSENT = "SELECT count(*) AS n FROM dbbeat_tick WHERE state = 'recorded'"
PAUSE = "UPDATE dbbeat_schedule SET state = 'paused' WHERE state = 'active'"
LEADERS = """
    SELECT DISTINCT r.pid FROM dbbeat_lease l JOIN dbbeat_replica r ON r.id = l.holder
    WHERE l.expires_at > now()
"""
READY = "SELECT count(*) AS n FROM dbbeat_replica WHERE ready AND pid = ANY(%(pids)s)"
TERMINATE = """
    SELECT count(pg_terminate_backend(pid)) AS n FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'celery-dbbeat'
"""
DAY = timedelta(days=1)


class Tables:
    """One database with the tables in it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.url = psycopg_url(url)

    @contextmanager
    def connect(self) -> Iterator[psycopg.Connection[dict[str, Any]]]:
        """A connection for one thing; each statement commits."""
        with psycopg.connect(
            self.url, autocommit=True, row_factory=dict_row, connect_timeout=5
        ) as connection:
            yield connection

    def rows(self, statement: str, **parameters: object) -> list[dict[str, Any]]:
        """Run a statement, and return its rows if it has any."""
        with self.connect() as connection:
            # The tests' own statements, never somebody's input.
            cursor = connection.execute(statement.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def value(self, statement: str, **parameters: object) -> Any:  # noqa: ANN401 - whatever the column holds
        """The only column of the only row."""
        (row,) = self.rows(statement, **parameters)
        (value,) = row.values()
        return value

    def check(self) -> Completeness:
        """What the package's own check says, which the checker here knows nothing of."""
        with Database(self._url, None, 5.0) as database:
            now = database.now()
            return check(database, now - DAY, now, 90 * DAY, 5)

    def add(self, name: str, every: str = "1", count: int = 1, task: str = TASK) -> list[UUID]:
        """Insert so many schedules with an interval; return their ids."""
        rows = self.rows(ADD, name=name, every=every, count=count, task=task)
        return [row["id"] for row in rows]

    def leaders(self) -> list[int]:
        """The process ids of those who hold a lease."""
        return [row["pid"] for row in self.rows(LEADERS)]

    def wait_until_led_by(self, pids: list[int]) -> None:
        """Wait until each of these processes holds a lease."""
        wait_until(lambda: set(self.leaders()) == set(pids), 20, lambda: f"leases of {pids}")

    def epoch(self) -> int:
        """The highest epoch of any lease."""
        return int(self.value("SELECT max(epoch) FROM dbbeat_lease"))

    def ready(self, pids: list[int]) -> int:
        """How many of these processes take part."""
        return int(self.value(READY, pids=pids))

    def terminate_beats(self) -> int:
        """End every connection of a beat from the server's side."""
        return int(self.value(TERMINATE))

    def unsent(self) -> int:
        """How many ticks are recorded and not known to be sent."""
        return int(self.value(UNSENT))

    def wait_until_sent(self, seconds: float = 1, timeout: float = 25) -> None:
        """Wait until each active schedule was sent for a fire time at least this far from now."""
        target = self.value("SELECT now() + make_interval(secs => %(s)s)", s=seconds)

        def reached() -> bool:
            until = self.value(BEHIND)
            return until is not None and bool(until >= target)

        wait_until(reached, timeout, lambda: f"{target}: {self.describe()}", every=0.1)

    def wait_until_sent_by(self, name: str) -> None:
        """Wait until a tick of the schedule with this name was sent."""
        sent = """
            SELECT count(*) FROM dbbeat_tick t JOIN dbbeat_schedule s ON s.id = t.schedule_id
            WHERE s.name = %(name)s AND t.state = 'sent'
        """
        wait_until(lambda: self.value(sent, name=name) > 0, 20, f"a tick of {name}")

    def settle(self, timeout: float = 25) -> None:
        """Wait until nothing is overdue, then let no more fire times come and all be sent."""
        wait_until(lambda: self.value(OVERDUE) == 0, timeout, lambda: f"on time: {self.describe()}")
        self.rows(PAUSE)
        wait_until(lambda: self.unsent() == 0, timeout, lambda: f"all sent: {self.describe()}")

    def describe(self) -> str:
        """Where things stand, for messages."""
        by_state = self.rows("SELECT state, count(*) AS n FROM dbbeat_tick GROUP BY state")
        ends = self.rows("SELECT name, state, reason FROM dbbeat_schedule WHERE reason IS NOT NULL")
        standing = (self.value(OVERDUE), self.value(BEHIND), self.leaders())
        return f"{by_state}, overdue, sent until, leaders {standing}, ended {ends[:5]}"
