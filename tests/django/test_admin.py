"""Schedules made, changed and deleted in the admin, by the API and in the user's name."""

import re
from datetime import timedelta
from uuid import UUID

from django.test import Client

from celery_dbbeat import Schedules
from tests.api.kit import NOON, Clerk
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


def test_many_are_deleted_at_once(client: Client, schedules: Schedules, clerk: Clerk) -> None:
    schedules.create_many({"name": f"s{n}", "task": "t", "interval": 60} for n in range(30))
    ids = [str(one.id) for one in schedules.list() if one.name != "s7"]
    chosen = {"action": "delete_selected", "_selected_action": ids}
    asked = page(client.post(LIST, chosen))
    assert "Schedules: 29" in asked
    assert "and 9 more" in asked
    assert len(schedules.list()) == 30
    client.post(LIST, {**chosen, "post": "yes"})
    assert [one.name for one in schedules.list()] == ["s7"]
    who = clerk.value("SELECT min(who || source) FROM dbbeat_audit WHERE action = 'delete'")
    assert who == "adadjango"


def test_what_somebody_else_changed_meanwhile_is_kept(client: Client, schedules: Schedules) -> None:
    info = schedules.create("nightly", "t", interval=60)
    address = f"{LIST}{info.id}/change/"
    typed = {**shown(client.get(address)), "expression": "90"}
    schedules.update("nightly", queue="slow")
    refused = client.post(address, typed)
    assert refused.status_code == 200
    assert "at version 2, not 1" in errors(refused)["__all__"][0]
    assert refused.context["adminform"].form["expression"].value() == "90"
    now = schedules.get("nightly")
    assert (now.expression, now.options) == ("60", {"queue": "slow"})


def test_nothing_typed_is_nothing_written(client: Client, schedules: Schedules) -> None:
    info = schedules.create(
        "full", "t", cron="0 9 * * *", timezone="Europe/Berlin",
        options={"queue": "q", "expires": 5},
        priority=3, start_at="2030-01-31T09:30", exclude=["2030-12-25"], misfire_grace=None,
        jitter=90, resend_after=0.5 + 1, labels={"ü": [1, None]}, max_runs=7,
    )  # fmt: skip
    address = f"{LIST}{info.id}/change/"
    assert client.post(address, shown(client.get(address))).status_code == 302
    assert schedules.get("full") == info


def test_a_name_that_is_taken(client: Client, schedules: Schedules) -> None:
    schedules.create("good", "t", interval=60)
    refused = client.post(ADD, form())
    assert "'good', which is taken" in errors(refused)["name"][0]
    assert len(schedules.list()) == 1


def test_what_the_code_owns_is_read_and_paused(
    client: Client, schedules: Schedules, clerk: Clerk
) -> None:
    identity = clerk.add(name="static", owner="code")
    address = f"{LIST}{identity}/change/"
    text = page(client.get(address))
    assert "is changed there" in text
    assert "Save" not in text
    assert client.post(address, form(name="mine")).status_code == 403
    assert client.post(f"{LIST}{identity}/delete/", {"post": "yes"}).status_code == 403
    chosen = {"_selected_action": str(identity), "action": "delete_selected", "post": "yes"}
    client.post(LIST, chosen)
    assert schedules.get("static").version == 1
    client.post(LIST, {**chosen, "action": "pause", "apply": "Pause", "note": "because"})
    assert (schedules.get("static").state, schedules.get("static").note) == ("paused", "because")


def test_search_and_filters(client: Client, schedules: Schedules) -> None:
    schedules.create("bill berlin", "shop.bill", interval=60, labels={"team": "a", "tier": 1})
    schedules.create("bill paris", "shop.bill", interval=60, queue="slow", paused=True)
    schedules.create("sync", "shop.sync", interval=60, description="of what Berlin sells")

    def found(query: str) -> list[str]:
        response = client.get(f"{LIST}?{query}")
        return [one.name for one in response.context["cl"].result_list]

    assert found("q=berl") == ["bill berlin", "sync"]
    assert found("q=bill+par") == ["bill paris"]
    assert found("q=team%3Da") == ["bill berlin"]
    assert found("q=tier%3D1+bill") == ["bill berlin"]
    assert found("q=queue:slow") == ["bill paris"]
    assert found("q=task:shop.sync") == ["sync"]
    assert found("state__exact=paused") == ["bill paris"]
    assert found("q=%25%27%29%3B--") == ["bill berlin", "bill paris", "sync"]


def test_the_form_suggests_tasks(client: Client) -> None:
    text = client.get(ADD).content.decode()
    assert '<option value="shop.add">' in text
    assert "celery.chord" not in text


def test_no_page_has_a_script_in_itself(client: Client, schedules: Schedules) -> None:
    info = schedules.create("nightly", "t", interval=60)
    for address in (LIST, ADD, f"{LIST}{info.id}/change/", f"{LIST}{info.id}/runs/"):
        text = client.get(address).content.decode()
        scripts = re.findall(r"<script([^>]*)>(.*?)</script>", text, re.DOTALL)
        ours = [attributes for attributes, inside in scripts if inside.strip()]
        assert all("application/json" in one for one in ours)
        assert not re.search(r"\s(style|on\w+)=", re.sub(r"(?s)<head>.*</head>", "", text))


def test_the_preview_says_when_and_what_clocks_do(client: Client) -> None:
    typed = form(kind="cron", expression="30 2 * 3 SUN", timezone="America/New_York")
    answer = client.post(f"{LIST}preview/", typed).json()
    assert answer["description"] == "At 02:30, Sunday, in March, New York"
    assert len(answer["times"]) == 10
    assert {time["dst"] for time in answer["times"]} == {"none", "gap"}


def test_the_preview_says_what_is_wrong_with_when_alone(client: Client) -> None:
    answer = client.post(f"{LIST}preview/", form(expression="never", args="[")).json()
    assert list(answer["problems"]) == ["expression"]
    assert client.get(f"{LIST}preview/").status_code == 405


def test_the_page_of_what_became_of_it(client: Client, schedules: Schedules, clerk: Clerk) -> None:
    info = schedules.create("nightly", "t", cron="0 12 * * *")
    for day in range(60):
        at = NOON - timedelta(days=day)
        clerk.run(clerk.tick(info.id, at, outcome="done"), at)
    clerk.dead(info.id, NOON - timedelta(days=61))
    response = client.get(f"{LIST}{info.id}/runs/", {"at": "2026-01-10T12:00"})
    text = page(response)
    assert response.content.count(b"<rect") == 122
    assert "500 ms" in text
    assert "there was no schedule 'nightly' yet" in text
    assert "ada" not in text.split("Changes")[1]
    older = client.get(f"{LIST}{info.id}/runs/", {"before": response.context["older"]})
    assert len(older.context["entries"]) == 11
    assert "allowed" in page(client.get(f"{LIST}{info.id}/runs/", {"at": "soon"}))
    assert client.get(f"{LIST}{UUID(int=1)}/runs/").status_code == 404


def test_a_schedule_with_no_history_has_its_page(client: Client, schedules: Schedules) -> None:
    info = schedules.create("nightly", "t", interval=60)
    assert "Nothing was sent yet" in page(client.get(f"{LIST}{info.id}/runs/"))
