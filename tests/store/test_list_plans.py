"""With many schedules, each list walks its index; nothing reads a whole table."""

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from celery_dbbeat.store import managing, status
from celery_dbbeat.store.database import Database
from celery_dbbeat.store.managing import Conditions
from tests.store.kit import Person
from tests.store.test_plans import Explained, scans, undone
from tests.support.services import Databases

SECOND = timedelta(seconds=1)
FILL = """
    INSERT INTO dbbeat_schedule
        (name, task, kind, expression, state, options, labels, description, owner)
    SELECT 'n' || to_char(i, 'FM00000'), 'task' || i % 10, 'interval', '86400',
           CASE WHEN i % 10 = 0 THEN 'paused' ELSE 'active' END,
           CASE WHEN i % 2 = 0 THEN jsonb_build_object('queue', 'q' || i % 50) ELSE '{}' END,
           jsonb_build_object('even', i % 2 = 0, 'rare', i % 1000 = 999),
           CASE WHEN i % 1000 = 999 THEN 'prime' ELSE 'plain' END,
           CASE WHEN i % 1000 = 0 THEN 'code' ELSE 'people' END
    FROM generate_series(1, 30000) AS i;
"""


@pytest.fixture(scope="module")
def crowd(databases: Databases, template: str) -> Iterator[Database]:
    """30,000 schedules."""
    name = f"dbbeat_crowd_{uuid4().hex}"
    url = databases.create(name, template)
    with closing(Person(url)) as person:
        person.connection.execute(FILL.encode())
        person.do("VACUUM ANALYZE dbbeat_schedule")
    with Database(url, None, 20.0) as store:
        yield store
    databases.drop(name)


def indexes(node: Any) -> set[str]:  # noqa: ANN401 - JSON
    """The indexes that a plan uses."""
    if isinstance(node, list):
        return {name for one in node for name in indexes(one)}
    if not isinstance(node, dict):
        return set()
    return (
        {node["Index Name"]} - {None}
        if "Index Name" in node
        else set().union(*(indexes(value) for value in node.values()))
    )


def _all_indexes(watched: Explained) -> set[str]:
    return {name for plan in watched.plans.values() for name in indexes(plan)}


@pytest.mark.parametrize("after", [None, "n25000"])
@pytest.mark.parametrize(
    ("conditions", "index"),
    [
        ({}, "name_key"),
        ({"state": "active"}, "by_state"),
        ({"state": "paused"}, "by_state"),
        ({"state": "invalid"}, "by_state"),
        ({"task": "task7"}, "by_task"),
        ({"queue": "q8"}, "by_queue"),
        ({"owner": "code"}, "by_owner"),
        ({"labels": '{"rare": true}'}, "by_label"),
        ({"words": "'prime':*"}, "by_word"),
    ],
    ids=str,
)
def test_a_list_walks_its_index(
    crowd: Database, conditions: dict[str, Any], index: str, after: str | None
) -> None:
    with undone(crowd) as watched:
        found = managing.page(watched, Conditions(**conditions, after=after), 50)
        assert found == sorted(found, key=lambda info: info.name)
        assert [scans(plan) for plan in watched.plans.values()] == [[]] * len(watched.plans)
        used = _all_indexes(watched)
    # What nearly all have is as well read off the index of names.
    allowed = {index, "name_key"} if conditions.get("state") == "active" else {index}
    assert any(name.endswith(tuple(allowed)) for name in used - {"dbbeat_cursor_pkey"})


def test_what_is_common_is_found_near(crowd: Database) -> None:
    with undone(crowd) as watched:
        found = managing.page(watched, Conditions(labels='{"even": true}'), 50)
        assert watched.plans.keys() == {"prefer_order", "list_names_near", "read_schedules"}
    assert len(found) == 50


def test_pages_hold_each_schedule_once(crowd: Database) -> None:
    names: list[str] = []
    rare = json.dumps({"rare": True})
    with crowd.transaction() as transaction:
        while True:
            after = names[-1] if names else None
            page = managing.page(transaction, Conditions(labels=rare, after=after), 7)
            names += [info.name for info in page]
            if len(page) < 7:
                break
    assert names == [f"n{number:05}" for number in range(999, 30000, 1000)]


def test_status_reads_no_whole_table(crowd: Database) -> None:
    with undone(crowd) as watched:
        found = status.look(watched, SECOND, SECOND)
        ours = {name: scans(plan) for name, plan in watched.plans.items()}
    # Of a handful of rows each.
    small = {"dbbeat_lease", "dbbeat_replica", "dbbeat_worker"}
    assert {name for tables in ours.values() for name in tables} <= small
    assert found.schedules["paused"].value == 3000
    assert found.schedules["active"].value == pytest.approx(27000, rel=0.05)
    assert not found.schedules["active"].exact
    assert found.due == status.MOST
