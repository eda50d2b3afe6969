"""With three months of ticks, history is read by indexes, and few days of it at a time."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from statistics import median
from typing import Any
from uuid import uuid4

import pytest
from celery import Celery

from celery_dbbeat import Schedules
from celery_dbbeat.clock import monotonic
from celery_dbbeat.store import history
from celery_dbbeat.store.database import Database, DeadlineConnection, Rows, Transaction
from tests.store.kit import Person
from tests.support.services import Databases

PARTITIONS = """
DO $$
DECLARE
    parent text;
    day date;
BEGIN
    FOREACH parent IN ARRAY ARRAY['dbbeat_tick', 'dbbeat_dedup'] LOOP
        FOR day IN SELECT (now() AT TIME ZONE 'UTC')::date - n FROM generate_series(1, 90) n LOOP
            EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)',
                parent || to_char(day, '_YYYYMMDD'), parent, day::timestamp AT TIME ZONE 'UTC',
                (day + 1)::timestamp AT TIME ZONE 'UTC');
        END LOOP;
    END LOOP;
END $$
"""
SCHEDULES = """
INSERT INTO dbbeat_schedule (name, task, kind, expression)
SELECT 'busy' || n, 't', 'interval', '60' FROM generate_series(1, %s) n
UNION ALL VALUES ('daily', 't', 'interval', '86400'), ('never', 't', 'interval', '86400')
"""
TICKS = """
INSERT INTO dbbeat_tick (schedule_id, nominal_at, task_id, state, due_at, sent_at, replica)
SELECT s.id, at, gen_random_uuid(), CASE WHEN random() < 0.0005 THEN 'dead' ELSE 'sent' END,
       at, at, 'a'
FROM dbbeat_schedule s, generate_series(now() - interval '89 days', now(), %s) at
WHERE s.name LIKE %s
"""
RUNS = """
INSERT INTO dbbeat_dedup (task_id, nominal_at, schedule, status, attempt, worker, lease_until)
SELECT task_id, nominal_at, 'a', 'done', 1, 'w', now() FROM dbbeat_tick
"""
NAMES = ["busy1", "daily", "never"]


class Explained(Transaction):
    """Explains each statement before it runs it."""

    def __init__(self, connection: DeadlineConnection, sql: Mapping[str, str]) -> None:
        super().__init__(connection, sql)
        self.scans: list[tuple[str, str]] = []
        self.opened: list[int] = []

    def run(self, name: str, /, **parameters: object) -> Rows:
        explain = f"EXPLAIN (FORMAT JSON) {self._sql[name]}"
        (row,) = self._connection.execute(explain, parameters, binary=True)
        found = nodes(row["QUERY PLAN"])
        ours = [(kind, table) for kind, table in found if table.startswith("dbbeat_")]
        self.scans += [one for one in ours if one[0] == "Seq Scan"]
        self.opened.append(len(ours))
        return super().run(name, **parameters)


def nodes(plan: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - JSON
    """How a plan reads which table."""
    if isinstance(plan, list):
        return [found for one in plan for found in nodes(one)]
    if not isinstance(plan, dict):
        return []
    here = [(plan["Node Type"], plan["Relation Name"])] if "Relation Name" in plan else []
    return here + [found for value in plan.values() for found in nodes(value)]


@pytest.fixture(scope="module")
def long_history(databases: Databases, template: str, long_run: bool) -> Iterator[str]:  # noqa: FBT001 - a fixture
    """90 days: 100,000 ticks and as many runs; ten times that in a long run."""
    name = f"dbbeat_history_{uuid4().hex}"
    url = databases.create(name, template)
    with closing(Person(url)) as person:
        person.connection.execute(PARTITIONS)
        person.do(SCHEDULES, 1000 if long_run else 100)
        person.do(TICKS, "2 hours 8 minutes", "busy%")
        person.do(TICKS, "1 day", "daily")
        person.do(RUNS)
        person.do("ANALYZE")
    yield url
    databases.drop(name)


@pytest.fixture
def watched(long_history: str) -> Iterator[Explained]:
    with Database(long_history, None, 20.0) as store, store.transaction() as transaction:
        yield Explained(transaction._connection, transaction._sql)


@pytest.mark.parametrize("name", NAMES)
def test_history_scans_no_partition(watched: Explained, name: str) -> None:
    found = history.history(watched, name, 50, None)
    assert len(found) == (0 if name == "never" else 50)
    assert watched.scans == []


def test_what_is_recent_opens_few_partitions(watched: Explained) -> None:
    """Each costs a new connection a fifth of a millisecond, before it has read anything."""
    assert len(history.history(watched, "busy1", 50, None)) == 50
    assert max(watched.opened) <= 10


def test_dead_ticks_are_found_by_their_index(watched: Explained) -> None:
    assert len(history.dead(watched, 20, None)) == 20
    assert watched.scans == []


def test_how_long_it_takes(long_history: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Told, not judged: machines that run tests are shared."""
    app = Celery("shop", broker="memory://", set_as_current=False)
    app.conf.dbbeat_url = long_history
    schedules = Schedules(app)
    told = []
    for name in NAMES:
        times = []
        for _ in range(9):
            began = monotonic()
            schedules.history(name)
            times.append(1000 * (monotonic() - began))
        told.append(f"{name} {median(times):.1f} ms")
    with capsys.disabled():
        print(f"\nhistory of 50, with its connection: {', '.join(told)}")
