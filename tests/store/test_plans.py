"""With many schedules, beat's statements walk indexes, whatever the statistics say."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from celery_dbbeat.settings import Settings
from celery_dbbeat.store import cursors, gauges, overlaps, pace, ticks
from celery_dbbeat.store.cursors import Holding
from celery_dbbeat.store.database import Database, DeadlineConnection, Rows, Transaction
from celery_dbbeat.store.ticks import Adopter
from tests.store.kit import EVERYTHING, HEDGE, NOTHING, TTL, Person, take
from tests.support.services import Databases

OURS = ("dbbeat_cursor", "dbbeat_schedule", "dbbeat_tick")
BATCH = 1000
DUE = 999
HALF = Holding(dict.fromkeys(range(128), 1))
HOLDINGS = {"all": EVERYTHING, "half": HALF, "none": NOTHING}
EMPTY = "SELECT relname FROM pg_class WHERE relkind = 'r' AND pg_relation_size(oid) = 0"

FILL = """
    INSERT INTO dbbeat_schedule (name, task, kind, expression, misfire_grace)
    SELECT 'n' || n, 't', 'interval', '86400', NULL FROM generate_series(1, 50000) n;
    UPDATE dbbeat_cursor SET replan_from = NULL, due_at = now() + (1 + random()) * interval '1 day',
        nominal_at = date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
    UPDATE dbbeat_cursor SET due_at = now() - interval '1 minute' WHERE schedule_id IN
        (SELECT id FROM dbbeat_schedule WHERE name ~ '^n[0-9]{1,3}$');
    INSERT INTO dbbeat_tick (schedule_id, nominal_at, task_id, state, due_at, replica)
    SELECT id, now() + (get_byte(uuid_send(id), 0) / 40) * interval '1 day', gen_random_uuid(),
           'sent', now(), 'a' FROM dbbeat_schedule;
"""
NO_STATISTICS = """
    ALTER TABLE dbbeat_schedule SET (autovacuum_enabled = off);
    ALTER TABLE dbbeat_cursor SET (autovacuum_enabled = off);
    ANALYZE dbbeat_schedule, dbbeat_cursor, dbbeat_tick;
"""


class Explained(Transaction):
    """Explains each statement before it runs it."""

    def __init__(self, connection: DeadlineConnection, sql: Mapping[str, str]) -> None:
        super().__init__(connection, sql)
        self.plans: dict[str, Any] = {}

    def run(self, name: str, /, **parameters: object) -> Rows:
        explain = f"EXPLAIN (FORMAT JSON) {self._sql[name]}"
        (row,) = self._connection.execute(explain, parameters, binary=True)
        self.plans[name] = row["QUERY PLAN"]
        return super().run(name, **parameters)


@pytest.fixture(scope="module", params=["statistics of empty tables", "fresh statistics"])
def crowded_url(
    request: pytest.FixtureRequest, databases: Databases, template: str
) -> Iterator[str]:
    """50,000 schedules with as many old ticks, 999 of them due."""
    name = f"dbbeat_crowd_{uuid4().hex}"
    url = databases.create(name, template)
    with closing(Person(url)) as person:
        person.connection.execute(NO_STATISTICS)
        person.connection.execute(FILL)
        if request.param == "fresh statistics":
            person.do("ANALYZE")
    yield url
    databases.drop(name)


@pytest.fixture
def crowd(crowded_url: str) -> Iterator[Database]:
    with Database(crowded_url, None, 20.0) as store:
        yield store


class _Undo(Exception):
    """Rolls a transaction back."""


@contextmanager
def undone(store: Database) -> Iterator[Explained]:
    """A transaction that explains its statements, and is rolled back."""
    with suppress(_Undo), store.transaction() as transaction:
        yield Explained(transaction._connection, transaction._sql)
        raise _Undo


def scans(node: Any) -> list[str]:  # noqa: ANN401 - JSON
    """The tables of ours that a plan reads from end to end."""
    if isinstance(node, list):
        return [name for one in node for name in scans(one)]
    if not isinstance(node, dict):
        return []
    here = [node["Relation Name"]] if node.get("Node Type") == "Seq Scan" else []
    return [name for name in here if name.startswith(OURS)] + [
        name for value in node.values() for name in scans(value)
    ]


def test_a_scan_would_be_seen(crowd: Database) -> None:
    (row,) = crowd._connect().execute("EXPLAIN (FORMAT JSON) SELECT count(*) FROM dbbeat_tick")
    assert scans(row["QUERY PLAN"])


def whole_tables(watched: Explained) -> dict[str, list[str]]:
    """The statements that read a table with anything in it from end to end."""
    found = {name: scans(plan) for name, plan in watched.plans.items()}
    sizes = watched._connection.execute(EMPTY)
    empty = {row["relname"] for row in sizes}
    return {name: tables for name, tables in found.items() if set(tables) - empty}


@pytest.mark.parametrize("holding", HOLDINGS.values(), ids=HOLDINGS)
def test_from_claim_to_mark(crowd: Database, holding: Holding) -> None:
    with undone(crowd) as watched:
        outgoing = cursors.record(watched, take(watched, holding, BATCH, HEDGE), "a")
        assert len(outgoing) == DUE
        ticks.give_up(watched, dict.fromkeys(outgoing[:10], "why"))
        adopted = ticks.adopt_unsent(watched, Adopter("b", TTL, TTL), BATCH, own_too=False)
        assert len(adopted.outgoing) == DUE - 10
        assert ticks.mark_sent(watched, outgoing) == DUE - 10
        cursors.outlook(watched, holding, "b", TTL)
        assert whole_tables(watched) == {}


@pytest.mark.parametrize("holding", HOLDINGS.values(), ids=HOLDINGS)
def test_the_outlook_by_itself(crowd: Database, holding: Holding) -> None:
    """Without what a transaction tells the planner."""
    watched = Explained(crowd._connect(), crowd._sql)
    cursors.outlook(watched, holding, "a", TTL)
    assert whole_tables(watched) == {}


@pytest.mark.parametrize("number", [1, 20, DUE])
def test_a_mark_of_few_and_of_many(crowd: Database, number: int) -> None:
    with undone(crowd) as watched:
        outgoing = cursors.record(watched, take(watched, limit=BATCH), "a")
        watched.plans.clear()
        ticks.mark_sent(watched, outgoing[:number])
        assert whole_tables(watched) == {}


def test_what_is_counted_for_metrics(crowd: Database) -> None:
    """With dead letters, awaited ticks and invalid schedules among many others."""
    with undone(crowd) as watched:
        cursors.record(watched, take(watched, limit=BATCH), "a")
        watched.plans.clear()
        counted = gauges.backlog(watched, Settings(url=""))
        assert gauges.states(watched)["invalid"] == 0
        assert counted["unsent"] == DUE
        assert whole_tables(watched) == {}


LATE = """
    UPDATE dbbeat_cursor SET due_at = NULL, waits_since = now() - interval '1 s' * random(),
        waits_for = CASE WHEN random() < 0.5 THEN 'turn' ELSE 'run' END;
"""


def test_what_is_late_and_what_waits(crowd: Database) -> None:
    """With nearly all of them held back, no statement reads all of them."""
    with undone(crowd) as watched:
        watched._connection.execute(LATE)
        assert pace.take(watched, timedelta(0)) is not None
        due = cursors.claim_late(watched, EVERYTHING, BATCH)
        assert len(due) == BATCH
        ids = [one.schedule.id for one in due]
        assert cursors.unsent_of(watched, ids) == set()
        assert len(overlaps.waiting(watched, overlaps.BEGINNING, BATCH).at_once) == BATCH
        assert overlaps.running(watched, ids) == {}
        assert cursors.claim(watched, EVERYTHING, HEDGE, BATCH) == (None, [])
        cursors.outlook(watched, EVERYTHING, "a", TTL)
        assert whole_tables(watched) == {}
