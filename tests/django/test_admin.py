"""Schedules made, changed and deleted in the admin, by the API and in the user's name."""

from typing import Any

from django.test import Client

from celery_dbbeat import Schedules
from tests.api.kit import Clerk
from tests.django.kit import ADD, LIST, errors, form, page, shown


def test_an_empty_list(client: Client) -> None:
    assert client.get(LIST).status_code == 200


def test_a_schedule_is_made_shown_changed_and_deleted(client: Client, schedules: Schedules) -> None:
    assert client.get(ADD).status_code == 200
    made = client.post(ADD, form(name="nightly", queue="slow", labels={"team": "billing"}))
    assert made.status_code == 302, errors(made)
    info = schedules.get("nightly")
    assert (info.options, info.labels) == ({"queue": "slow"}, {"team": "billing"})
    assert "nightly" in page(client.get(LIST))

    address = f"{LIST}{info.id}/change/"
    typed = {**shown(client.get(address)), "expression": "90 minutes", "name": "hourly"}
    changed = client.post(address, typed)
    assert changed.status_code == 302, errors(changed)
    after = schedules.get("hourly")
    assert (after.id, after.expression, after.options) == (info.id, "90 minutes", info.options)
    last = schedules.changes("hourly")[0]
    assert (last.who, last.source, set(last.after or ())) == (
        "ada",
        "django",
        {"name", "expression"},
    )

    assert client.get(f"{LIST}{info.id}/delete/").status_code == 200
    assert client.post(f"{LIST}{info.id}/delete/", {"post": "yes"}).status_code == 302
    assert schedules.list() == []
    assert schedules.changes("hourly")[0].who == "ada"
