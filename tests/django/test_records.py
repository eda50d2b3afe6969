"""Pages of ticks, dead letters, runs and replicas: found by their keys, never by a scan."""

from typing import Any

import pytest
from django.test import Client

from celery_dbbeat import Schedules
from tests.api.kit import NOON, SECOND, Clerk
from tests.django.kit import page
from tests.django.test_orders import may

TICKS, DEAD, RUNS = (f"/admin/dbbeat/{one}/" for one in ("tick", "deadletter", "run"))


@pytest.fixture
def letter(schedules: Schedules, clerk: Clerk) -> str:
    info = schedules.create("nightly", "t", cron="0 12 * * *")
    return str(clerk.dead(info.id, NOON + SECOND / 1000))


def rows(response: Any) -> list[Any]:
    return list(response.context["cl"].result_list)


def link(response: Any) -> str:
    found = response.context["cl"]
    return str(found.url_for_result(found.result_list[0]))


@pytest.mark.parametrize("address", [TICKS, DEAD, RUNS])
def test_a_record_is_found_by_its_schedule_and_read(
    client: Client, letter: str, address: str
) -> None:
    found = client.get(address, {"q": "nightly"})
    assert [str(one.task_id) for one in rows(found)] == [letter]
    text = page(client.get(link(found)))
    assert letter in text
    assert "nightly" in text
    assert client.post(link(found), {}).status_code == 403
    assert rows(client.get(address, {"q": "weekly"})) == []


def test_ticks_are_not_read_all(client: Client, letter: str, schedules: Schedules) -> None:
    assert rows(client.get(TICKS)) == []
    assert rows(client.get(RUNS)) == []
    identity = schedules.get("nightly").id
    assert len(rows(client.get(TICKS, {"schedule_id": str(identity)}))) == 1


def test_a_run_is_found_by_its_task_id(client: Client, letter: str) -> None:
    assert len(rows(client.get(RUNS, {"q": letter}))) == 1


@pytest.mark.parametrize("key", ["1", "x,y,z", "a,b", f"{'9' * 40},{'9' * 40},{'9' * 40}"])
@pytest.mark.parametrize("address", [TICKS, RUNS, DEAD])
def test_what_is_no_key_leads_nowhere(client: Client, address: str, key: str) -> None:
    assert client.get(f"{address}{key}/change/").status_code == 302


def test_a_dead_letter_is_replayed(client: Client, letter: str, schedules: Schedules) -> None:
    text = page(client.get(DEAD))
    assert "ValueError: no" in text
    chosen = {"action": "replay", "_selected_action": letter}
    assert "1 is sent again." in page(client.post(DEAD, chosen, follow=True))
    assert schedules.dead() == []
    (entry,) = schedules.history("nightly")
    assert (entry.state, entry.kind, str(entry.task_id)) == ("recorded", "manual", letter)


def test_one_whose_schedule_is_gone_stays_and_why_is_said(
    client: Client, letter: str, schedules: Schedules
) -> None:
    schedules.delete("nightly")
    chosen = {"action": "replay", "_selected_action": letter}
    assert "its schedule was deleted" in page(client.post(DEAD, chosen, follow=True))
    assert len(schedules.dead()) == 1
    assert "(deleted)" in page(client.get(DEAD))


def test_replay_needs_its_permission(user: Any, letter: str, schedules: Schedules) -> None:
    bob = may(user, "view_deadletter")
    bob.post(DEAD, {"action": "replay", "_selected_action": letter})
    assert len(schedules.dead()) == 1


def test_replicas(client: Client, clerk: Clerk) -> None:
    clerk.do(
        "INSERT INTO dbbeat_replica (id, hostname, pid, release, ready)"
        " VALUES ('a:1', 'a', 1, '0.1', true)"
    )
    assert "a:1" in page(client.get("/admin/dbbeat/replica/"))
    assert client.get("/admin/dbbeat/replica/a_3A1/change/").status_code == 200
