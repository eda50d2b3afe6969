"""Pages of large tables: few statements, none that counts or reads all of them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.api.kit import Clerk
from tests.django.conftest import point
from tests.support.services import Databases

MANY = 120_000
LIST = "/admin/dbbeat/schedule/"


@pytest.fixture(scope="module")
def large(databases: Databases, django_template: str) -> Iterator[str]:
    name = "django_large"
    url = databases.create(name, django_template)
    clerk = Clerk(url)
    clerk.do(
        "INSERT INTO dbbeat_schedule (name, task, kind, expression, labels, state)"
        " SELECT 'schedule ' || n, 'shop.sync', 'interval', '60',"
        "        jsonb_build_object('team', 'team' || n %% 1000),"
        "        CASE WHEN n %% 100 = 0 THEN 'paused' ELSE 'active' END"
        " FROM generate_series(1, %s) n",
        MANY,
    )
    clerk.do(
        "INSERT INTO dbbeat_tick (schedule_id, nominal_at, task_id, state, due_at, replica)"
        " SELECT id, now(), gen_random_uuid(), 'sent', now(), 'a' FROM dbbeat_schedule"
    )
    clerk.do("ANALYZE dbbeat_schedule; ANALYZE dbbeat_tick; ANALYZE dbbeat_cursor")
    clerk.close()
    yield url
    databases.drop(name)


@pytest.fixture
def database_url(large: str) -> Iterator[str]:
    """One for all, with no users yet."""
    from django.contrib.auth.models import User

    point(large)
    User.objects.all().delete()
    yield large
    connections["default"].close()


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def read_by(sql: str) -> int:
    """How many rows a statement took from tables, at the most by one node."""
    with connections["default"].cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}")
        found = cursor.fetchone()[0]
    (top,) = json.loads(found) if isinstance(found, str) else found
    return max(
        int(node["Actual Rows"]) * int(node["Actual Loops"])
        + int(node.get("Rows Removed by Filter", 0))
        for node in nodes(top["Plan"])
    )


PAGES = {
    LIST: 10_001,
    f"{LIST}?p=50": 10_001,
    f"{LIST}?state__exact=paused": 1_300,
    f"{LIST}?q=77777": 10,
    f"{LIST}?q=team%3Dteam7": 200,
    "/admin/dbbeat/tick/": 0,
    "/admin/dbbeat/tick/?q=schedule+7": 10,
    "/admin/dbbeat/deadletter/": 10,
    "/admin/dbbeat/run/": 0,
    "/admin/dbbeat/run/?q=schedule+7": 10,
}


@pytest.mark.parametrize(("address", "most"), PAGES.items(), ids=PAGES)
def test_a_page_reads_no_more_than_it_shows_and_counts(
    client: Client, address: str, most: int
) -> None:
    client.get(address)
    with CaptureQueriesContext(connections["default"]) as captured:
        response = client.get(address)
    assert response.status_code == 200
    ours = [one["sql"] for one in captured.captured_queries if 'FROM "dbbeat_' in one["sql"]]
    # Those that look up a few by an index are planned in a way of their own.
    ours = [sql for sql in ours if not sql.endswith("LIMIT 1001")]
    assert len(captured.captured_queries) <= 15
    for sql in ours:
        assert read_by(sql) <= max(most, 100), sql


def test_the_number_of_all_is_estimated_and_pages_end(client: Client) -> None:
    found = client.get(LIST).context["cl"]
    assert 0.9 * MANY < found.result_count < 1.1 * MANY
    assert found.paginator.num_pages == 100
    assert client.get(f"{LIST}?p=101").status_code == 302
    searched = client.get(f"{LIST}?q=schedule").context["cl"]
    assert searched.result_count == 10_001


def test_no_more_than_a_thousand_are_ordered_at_once(client: Client, clerk: Clerk) -> None:
    first = clerk.value("SELECT min(id::text) FROM dbbeat_schedule")
    chosen = {"action": "resume", "_selected_action": first, "select_across": "1", "index": "0"}
    text = client.post(LIST, chosen, follow=True).content.decode()
    assert "allowed are 1000 at once" in text


def test_deleting_all_that_was_found_asks_with_a_few_names(client: Client, clerk: Clerk) -> None:
    first = clerk.value("SELECT min(id::text) FROM dbbeat_schedule")
    chosen = {"action": "delete_selected", "_selected_action": first, "select_across": "1",
              "index": "0"}  # fmt: skip
    response = client.post(f"{LIST}?q=team%3Dteam7", chosen)
    text = response.content.decode()
    assert "Schedules: 120" in text
    assert text.count('name="_selected_action"') == 1
    posted = {"action": "delete_selected", "_selected_action": "all", "select_across": "1"}
    client.post(f"{LIST}?q=team%3Dteam7", {**posted, "post": "yes"})
    assert clerk.value("SELECT count(*) FROM dbbeat_schedule") == MANY - 120
