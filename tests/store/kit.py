"""What the tests of the store share: a person with plain SQL, and beat's steps without a broker."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import Jsonb

from celery_dbbeat.rules.plan import Plan, plan
from celery_dbbeat.store import cursors
from celery_dbbeat.store.cursors import SHARDS, Due, Holding, Outgoing
from celery_dbbeat.store.database import Database, Transaction
from tests.support.services import psycopg_url
from tests.support.waiting import wait_until

EVERYTHING = Holding(dict.fromkeys(range(SHARDS), 1))
NOTHING = Holding({})
HEDGE = timedelta(seconds=1)
TTL = timedelta(seconds=10)

# A daily schedule has one fire time in the last 24 hours, whenever the tests run.
DAILY = {"task": "t", "kind": "interval", "expression": "86400", "misfire_grace": None}

INSERT = sql.SQL("INSERT INTO dbbeat_schedule ({}) VALUES ({}) RETURNING id")


class Person:
    """Somebody with plain SQL, on a connection of their own in autocommit mode."""

    def __init__(self, url: str, schema: str = "public") -> None:
        self.connection = psycopg.connect(
            psycopg_url(url),
            autocommit=True,
            row_factory=dict_row,
            options=f"-c search_path={schema}",
        )
        self.pid = self.connection.info.backend_pid

    def do(self, statement: str, *parameters: object) -> list[DictRow]:
        """Run a statement; returns its rows, if it has any."""
        by_name = parameters[0] if parameters and isinstance(parameters[0], dict) else None
        cursor = self.connection.execute(statement, by_name or parameters or None)
        return cursor.fetchall() if cursor.description else []

    def one(self, statement: str, *parameters: object) -> DictRow:
        """The only row of a statement."""
        (row,) = self.do(statement, *parameters)
        return row

    def value(self, statement: str, *parameters: object) -> Any:  # noqa: ANN401 - whatever it is
        """The only value of a statement."""
        (value,) = self.one(statement, *parameters).values()
        return value

    def add(self, name: str = "nightly", **columns: object) -> UUID:
        """Insert a schedule, daily unless told otherwise; returns its id."""
        given = {**DAILY, **columns, "name": name}
        values = [Jsonb(v) if isinstance(v, dict | list) else v for v in given.values()]
        statement = INSERT.format(
            sql.SQL(", ").join(map(sql.Identifier, given)),
            sql.SQL(", ").join([sql.Placeholder()] * len(given)),
        )
        identity: UUID = self.connection.execute(statement, values).fetchall()[0]["id"]
        return identity

    def add_due(self, *names: str, **columns: object) -> list[UUID]:
        """Insert schedules whose fire time of today is due, the first named longest overdue."""
        ids = [self.add(name, **columns) for name in names]
        for position, identity in enumerate(ids):
            self.make_due(identity, timedelta(seconds=100 - position))
        return ids

    def make_due(self, identity: UUID, overdue: timedelta = timedelta(seconds=5)) -> None:
        """Let the fire time of today be due for so long."""
        self.do(
            "UPDATE dbbeat_cursor SET nominal_at = date_trunc('day', now() AT TIME ZONE 'UTC')"
            " AT TIME ZONE 'UTC', due_at = now() - %s, replan_from = NULL, held_at = NULL"
            " WHERE schedule_id = %s",
            overdue,
            identity,
        )

    def schedule(self, identity: UUID) -> DictRow:
        """One schedule."""
        return self.one("SELECT * FROM dbbeat_schedule WHERE id = %s", identity)

    def cursor(self, identity: UUID) -> DictRow:
        """Where one schedule stands."""
        return self.one("SELECT * FROM dbbeat_cursor WHERE schedule_id = %s", identity)

    def ticks(self, identity: UUID) -> list[DictRow]:
        """The history of one schedule."""
        statement = "SELECT * FROM dbbeat_tick WHERE schedule_id = %s ORDER BY nominal_at"
        return self.do(statement, identity)

    def close(self) -> None:
        """Hang up."""
        self.connection.close()


class Waiting:
    """A statement run in a thread by a person who waits until somebody lets go of a row."""

    def __init__(self, url: str, statement: str, *parameters: object) -> None:
        self._person = Person(url)
        self._observer = Person(url)
        self._pool = ThreadPoolExecutor(1)
        self._answer = self._pool.submit(self._person.do, statement, *parameters)
        wait_until(self.blocked, message=f"{statement} to wait for a lock")

    def blocked(self) -> bool:
        """Whether it waits for somebody's lock."""
        if self._answer.done():
            raise AssertionError(f"it did not wait: {self._answer.result()}")
        return bool(
            self._observer.value("SELECT cardinality(pg_blocking_pids(%s)) > 0", self._person.pid)
        )

    def result(self) -> list[DictRow]:
        """What it returned, once it went on."""
        try:
            return self._answer.result(10)
        finally:
            self._person.close()
            self._observer.close()
            self._pool.shutdown()


def take(
    transaction: Transaction,
    holding: Holding = EVERYTHING,
    limit: int = 100,
    hedge: timedelta = HEDGE,
) -> list[tuple[Due, Plan]]:
    """Claim and plan, as beat does."""
    now, due = cursors.claim(transaction, holding, hedge, limit)
    return [(one, plan(one.schedule, one.cursor, now, room=1)) for one in due if now is not None]


def names(taken: Sequence[tuple[Due, Plan]]) -> list[str]:
    """Whose cursors were claimed."""
    return [due.schedule.name for due, _ in taken]


def dispatch(database: Database, replica: str = "a", limit: int = 100) -> list[Outgoing]:
    """Claim, plan and record in one transaction; returns what is to be sent."""
    with database.transaction() as transaction:
        return cursors.record(transaction, take(transaction, limit=limit), replica)
