"""Each page, as somebody sees it who may write."""

import subprocess
import sys
from datetime import timedelta
from typing import Any

from celery import Celery

from celery_dbbeat import Schedules
from celery_dbbeat.contrib.web import create_app
from tests.api.kit import NOON, SECOND, Clerk
from tests.support.server import free_port
from tests.web.conftest import SECRET
from tests.web.visitor import Visitor, form


def test_a_schedule_is_made_changed_and_deleted(ada: Visitor, schedules: Schedules) -> None:
    empty = form(ada.look("/new"), "/new")
    typed = {**empty, "name": "bills / 1", "task": "shop.add", "args": "[1]", "queue": "slow"}
    page = ada.post("/new", data=typed)
    assert (page.status_code, page.url.params["name"]) == (200, "bills / 1")
    made = schedules.get("bills / 1")
    assert (made.kind, made.expression, made.args) == ("cron", "0 9 * * MON-FRI", [1])
    assert (made.options, made.misfire_grace) == ({"queue": "slow"}, timedelta(hours=1))
    assert schedules.changes("bills / 1")[0].who == "ada"
    assert schedules.changes("bills / 1")[0].source == "web"

    edited = form(ada.look("/edit", name="bills / 1"), "/edit")
    ada.post("/edit", data={**edited, "expression": "@hourly", "misfire_grace": ""})
    now = schedules.get("bills / 1")
    assert (now.expression, now.misfire_grace) == ("@hourly", None)
    assert now.options == {"queue": "slow"}

    confirm = form(ada.look("/delete", name="bills / 1"), "/delete")
    page = ada.post("/delete", data=confirm)
    assert "was deleted" in page.text
    assert schedules.list() == []


def test_what_is_saved_untouched_stays_as_it_is(ada: Visitor, schedules: Schedules) -> None:
    before = schedules.create(
        "all",
        "shop.add",
        interval=0.5,
        args=[{"ü": "<b>"}],
        options={"expires": 60, "queue": "slow", "priority": 3},
        start_at=NOON,
        jitter=0.25,
        exclude=["2030-12-25"],
        labels={"n": 1},
        description="two\nlines",
        catch_up_limit=3,
    )
    ada.post("/edit", data=form(ada.look("/edit", name="all"), "/edit"))
    assert schedules.get("all") == before


def test_a_change_of_somebody_else_in_between_is_not_undone(
    ada: Visitor, schedules: Schedules
) -> None:
    schedules.create("bills", "shop.add", cron="@daily", args=[1])
    seen = form(ada.look("/edit", name="bills"), "/edit")
    schedules.update("bills", queue="slow")
    page = ada.post("/edit", data={**seen, "expression": "@hourly"})
    assert page.status_code == 400
    assert "read it again, and see what to keep" in page.text
    assert 'value="@hourly"' in page.text
    assert schedules.get("bills").expression == "@daily"
    again = form(page, "/edit")
    assert again["version"] == seen["version"]


def test_the_list_is_filtered_and_paged(ada: Visitor, schedules: Schedules) -> None:
    schedules.create_many(
        {
            "name": f"sync-{number:03}",
            "task": "shop.sync" if number % 2 else "shop.other",
            "interval": 60,
            "labels": {"team": "a" if number < 60 else "b", "number": number},
            "queue": "slow" if number == 7 else None,
        }
        for number in range(120)
    )
    schedules.pause("sync-003", note="out of paper")
    first = ada.look("/")
    assert ("sync-000" in first.text, "sync-050" in first.text) == (True, False)
    assert "after=sync-049" in first.text
    second = ada.look("/", after="sync-049")
    assert ("sync-049</a>" in second.text, "sync-050" in second.text) == (False, True)
    assert "out of paper" in ada.look("/", state="paused").text
    assert "sync-000" not in ada.look("/", state="paused").text
    assert "sync-007" in ada.look("/", queue="slow", label="team=a", task="shop.sync").text
    assert "There is no such schedule" in ada.look("/", queue="slow", label="team=b").text
    assert "sync-060" in ada.look("/", label='{"team": "b"}').text
    assert "sync-119" in ada.look("/", text="sync 119").text
    numbered = ada.look("/", label="number=70")
    assert ("sync-070" in numbered.text, "sync-071" in numbered.text) == (True, False)
    assert "one word or more" in ada.look("/", 400, text="?!").text
    assert "such as team=billing" in ada.look("/", 400, label="team").text
    assert "allowed is JSON" in ada.look("/", 400, label="{team}").text


def test_orders(ada: Visitor, schedules: Schedules, clerk: Clerk) -> None:
    schedules.create("bills", "shop.add", cron="@daily", args=[1])
    page = ada.submit("/trigger", name="bills", args="[2]")
    assert "Beat sends it now" in page.text
    assert clerk.value("SELECT count(*) FROM dbbeat_tick WHERE state = 'recorded'") == 1
    assert "allowed is JSON" in ada.submit("/trigger", 400, name="bills", args="[2").text
    assert "no paper" in ada.submit("/pause", name="bills", note="no paper").text
    assert schedules.get("bills").state == "paused"
    assert "Backfill 1 catches up" in ada.submit("/resume", name="bills", catch_up="on").text
    assert schedules.get("bills").state == "active"
    ada.submit("/trigger", 404, name="nobody")


def test_a_backfill_is_shown_before_it_is_ordered(ada: Visitor, schedules: Schedules) -> None:
    schedules.create("bills", "shop.add", interval=86400, args=[1])
    today = schedules.now().date()
    start, end = str(today - timedelta(days=3)), str(today - timedelta(days=1))
    asked = form(ada.look("/backfill", name="bills"), "/backfill") | {"start": start, "end": end}
    page = ada.get("/backfill", params=asked)
    assert "3 fire times" in page.text
    assert "Macro" not in page.text
    assert schedules.backfills() == []
    values: dict[str, Any] = {**asked, "rate": "5", "note": "lost <b>"}
    page = ada.submit("/backfill", **values)
    (ordered,) = schedules.backfills("bills")
    assert (ordered.rate, ordered.note, ordered.ordered_by) == (5.0, "lost <b>", "ada")
    assert "is ordered" in page.text
    assert "lost &lt;b&gt;" in page.text
    assert "allowed is" in ada.submit("/backfill", 400, **{**values, "rate": "fast"}).text
    assert "start" in ada.look("/backfill", 400, name="bills", start="x", end=end).text
    assert "is stopped" in ada.submit("/backfill/stop", id=ordered.id).text
    assert "goes on" in ada.submit("/backfill/continue", id=ordered.id).text
    ada.submit("/backfill/stop", 404, id="9" * 30)
    assert len(schedules.backfills()) == 1


def test_what_is_older_than_anything_known_is_backfilled_only_when_confirmed(
    ada: Visitor, schedules: Schedules
) -> None:
    schedules.create("bills", "shop.add", interval=86400, args=[1])
    values: dict[str, Any] = {"name": "bills", "start": "2020-01-01", "end": "2020-01-03"}
    page = ada.submit("/backfill", 400, **values)
    assert 'name="force"' in page.text
    ada.submit("/backfill", **values, force="on")
    assert len(schedules.backfills()) == 1


def test_history_and_explanation(ada: Visitor, clerk: Clerk) -> None:
    bills = clerk.add("bills")
    for number in range(3):
        nominal = NOON - number * timedelta(days=1)
        clerk.run(clerk.tick(bills, nominal), nominal)
    clerk.dead(bills, NOON - timedelta(days=3))
    clerk.tick(bills, NOON - timedelta(days=5), "missed", count=2, sent_at=None,
               last_at=NOON - timedelta(days=4), reason="nobody was there")  # fmt: skip
    page = ada.look("/schedule", name="bills")
    assert page.text.count('<rect class="done"') == 3
    assert page.text.count('<rect class="failed"') == 1
    assert page.text.count('<rect class="unsent"') == 2
    assert "nobody was there" in page.text
    page = ada.look("/schedule", name="bills", at=NOON.isoformat())
    assert "there was no schedule &#39;bills&#39; yet" in page.text
    assert "at is &#39;noon&#39;" in ada.look("/schedule", name="bills", at="noon").text


def test_dead_letters_are_sent_again(ada: Visitor, clerk: Clerk, schedules: Schedules) -> None:
    bills = clerk.add("bills")
    ids = [clerk.dead(bills, NOON + number * SECOND) for number in range(3)]
    page = ada.look("/dead")
    assert page.text.count("ValueError: no") == 3
    assert page.text.count("<pre>Trace</pre>") == 3
    assert "1 sent again" in ada.submit("/replay", task_id=str(ids[0])).text
    assert len(schedules.dead()) == 2
    ada.submit("/replay", 404)
    ada.submit("/replay", 404, task_id=[str(ids[1]), "nonsense"])
    assert len(schedules.dead()) == 2
    ada.submit("/replay", all="1", name="bills")
    assert schedules.dead() == []
    assert "Nothing is dead" in ada.look("/dead", name="bills").text


def test_who_changed_what(ada: Visitor, schedules: Schedules) -> None:
    schedules.create("bills", "shop.add", cron="@daily", args=[1])
    schedules.update("bills", cron="@hourly")
    page = ada.look("/changes", name="bills")
    assert "<del>&#34;@daily&#34;</del> <ins>&#34;@hourly&#34;</ins>" in page.text
    ada.look("/changes")
    assert "there never was" in ada.look("/changes", 404, name="nobody").text


def test_replicas(ada: Visitor, clerk: Clerk) -> None:
    assert "No beat was seen" in ada.look("/replicas").text
    clerk.do(
        "INSERT INTO dbbeat_replica (id, hostname, pid, release, ready)"
        " VALUES ('one', '<i>host', 1, '1', true)"
    )
    page = ada.look("/replicas")
    assert "&lt;i&gt;host" in page.text
    assert "stands by" in page.text


def test_what_is_not_there(ada: Visitor) -> None:
    for path in ("/schedule", "/edit", "/delete", "/backfill"):
        assert "there is no schedule" in ada.look(path, 404, name="nobody").text
    assert ada.get("/nothing").status_code == 404
    assert ada.get("/static/../app.py").status_code == 404


def test_the_database_is_away(users: dict[str, str]) -> None:
    app = Celery("shop", broker="memory://", set_as_current=False)
    app.conf.dbbeat_url = f"postgresql+psycopg://nobody@127.0.0.1:{free_port()}/none"
    with Visitor(create_app(app, users=users, editors=["ada"], secret=SECRET)) as ada:
        ada.log_in("ada", status=503)
        assert "The database cannot be reached" in ada.look("/", 503).text
        assert ada.submit("/trigger", 503, name="bills").headers["x-frame-options"] == "DENY"


def test_without_the_extra_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['starlette'] = None; import celery_dbbeat.contrib.web"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'celery-dbbeat[web]'" in done.stderr
