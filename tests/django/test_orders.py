"""Orders from the admin, and who may give them."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from celery_dbbeat import Schedules
from tests.api.kit import NOON, Clerk
from tests.django.kit import ADD, LIST, form, page

ACTIONS = {
    "run_now": "run_schedule",
    "pause": "pause_schedule",
    "resume": "pause_schedule",
    "backfill": "backfill_schedule",
}


@pytest.fixture
def identity(schedules: Schedules) -> str:
    return str(schedules.create("nightly", "shop.add", cron="0 12 * * *", args=[1]).id)


def order(client: Client, identity: str, action: str, **typed: str) -> Any:
    chosen = {"action": action, "_selected_action": identity, **typed}
    return client.post(LIST, chosen, follow=True)


def may(user: Any, *names: str) -> Client:
    """A browser of Bob, who is staff and may do this alone."""
    from django.contrib.auth.models import Permission, User

    bob = User.objects.create_user("bob", password="builder", is_staff=True)  # noqa: S106 - a test's
    found = Permission.objects.filter(codename__in=names, content_type__app_label="dbbeat")
    assert found.count() == len(names)
    bob.user_permissions.set(found)
    client = Client()
    client.force_login(bob)
    return client


def test_run_now(client: Client, schedules: Schedules, identity: str) -> None:
    assert "1 schedule sent." in page(order(client, identity, "run_now"))
    (entry,) = schedules.history("nightly")
    assert (entry.kind, entry.state) == ("manual", "recorded")


def test_pause_asks_why_and_resume_goes_on(
    client: Client, schedules: Schedules, identity: str
) -> None:
    assert "Pause nightly" in page(order(client, identity, "pause"))
    assert schedules.get("nightly").state == "active"
    order(client, identity, "pause", apply="Pause", note="the printer is broken")
    info = schedules.get("nightly")
    assert (info.state, info.note) == ("paused", "the printer is broken")
    assert schedules.changes("nightly")[0].who == "ada"
    order(client, identity, "resume")
    assert schedules.get("nightly").state == "active"


def test_resume_and_catch_up(client: Client, schedules: Schedules, identity: str) -> None:
    schedules.pause("nightly")
    order(client, identity, "catch_up")
    assert schedules.get("nightly").state == "active"
    (ordered,) = schedules.backfills("nightly")
    assert ordered.ordered_by == "ada"


def test_backfill_shows_what_it_would_do_first(
    client: Client, schedules: Schedules, identity: str
) -> None:
    today = schedules.now().date()
    first, last = (str(today - timedelta(days=days)) for days in (5, 3))
    typed = {"start": first, "end": last, "reprocess": "none",
             "max_concurrent": "2", "overlap": "allow", "note": "lost"}  # fmt: skip
    wrong = page(order(client, identity, "backfill", apply="1", **{**typed, "end": "2020-01-01"}))
    assert "allowed is the same or later" in wrong
    looked = page(order(client, identity, "backfill", look="1", **typed))
    assert "nightly: 3 fire times" in looked
    assert schedules.backfills() == []
    order(client, identity, "backfill", apply="1", **typed)
    (ordered,) = schedules.backfills()
    assert (ordered.total, ordered.max_concurrent, ordered.note) == (3, 2, "lost")


def test_what_is_refused_is_said(client: Client, clerk: Clerk) -> None:
    broken = clerk.add(name="broken", state="invalid", reason="no such zone")
    assert "no such zone" in page(order(client, str(broken), "run_now"))


def test_orders_on_a_schedules_own_page_lead_back_to_it(client: Client, identity: str) -> None:
    address = f"{LIST}{identity}/runs/"
    assert page(client.get(address)).count("Run now") == 1
    told = {"action": "run_now", "_selected_action": identity, "index": "0", "_from": "runs"}
    assert client.post(LIST, told).headers["Location"] == address


@pytest.mark.parametrize(("action", "permission"), ACTIONS.items())
def test_each_order_needs_its_permission(
    user: Any,
    schedules: Schedules,
    identity: str,
    action: str,
    permission: str,
) -> None:
    others = set(ACTIONS.values()) - {permission}
    bob = may(user, "view_schedule", *others)
    version = schedules.get("nightly").version
    typed = {"apply": "1", "start": "2026-11-01", "end": "2026-11-02", "reprocess": "none",
             "max_concurrent": "1", "overlap": "allow"}  # fmt: skip
    order(bob, identity, action, **typed)
    assert schedules.get("nightly").version == version
    assert schedules.history("nightly") == []
    assert schedules.backfills() == []


def test_who_may_only_look(user: Any, schedules: Schedules, identity: str) -> None:
    bob = may(user, "view_schedule")
    text = page(bob.get(f"{LIST}{identity}/change/"))
    assert "nightly" in text
    assert "Run now" not in text
    assert bob.get(f"{LIST}{identity}/runs/").status_code == 200
    assert bob.get(ADD).status_code == 403
    assert bob.post(ADD, form()).status_code == 403
    assert bob.post(f"{LIST}{identity}/change/", form()).status_code == 403
    assert bob.post(f"{LIST}{identity}/delete/", {"post": "yes"}).status_code == 403
    assert bob.post(f"{LIST}preview/", form()).status_code == 403
    assert [one.name for one in schedules.list()] == ["nightly"]
    assert bob.get("/admin/dbbeat/tick/").status_code == 403


def test_who_is_not_logged_in_is_asked_to(schedules: Schedules, identity: str) -> None:
    for address in (LIST, f"{LIST}{identity}/runs/", f"{LIST}preview/"):
        found = Client().get(address)
        assert (found.status_code, "/admin/login/" in found.headers["Location"]) == (302, True)


def test_every_post_needs_its_token(
    user: Any,
    schedules: Schedules,
    clerk: Clerk,
    identity: str,
) -> None:
    clerk.dead(schedules.get("nightly").id, NOON)
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    posts = {
        ADD: form(),
        f"{LIST}preview/": form(),
        f"{LIST}{identity}/preview/": form(),
        f"{LIST}{identity}/change/": form(),
        f"{LIST}{identity}/runs/": {},
        f"{LIST}{identity}/delete/": {"post": "yes"},
        LIST: {"action": "run_now", "_selected_action": identity},
        "/admin/dbbeat/deadletter/": {"action": "replay", "_selected_action": identity},
    }
    for address, typed in posts.items():
        assert client.post(address, typed).status_code == 403, address
    assert [one.version for one in schedules.list()] == [1]
