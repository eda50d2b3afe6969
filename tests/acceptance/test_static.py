"""The app's own entries become rows, and follow the code over restarts; people's rows do not."""

from typing import Any

from tests.faults.app import TASK
from tests.faults.cluster import Cluster
from tests.support.processes import Process
from tests.support.waiting import wait_until

APP = """
from celery import Celery
from celery.schedules import crontab
app = Celery("shop")
app.conf.update(beat_scheduler="dbbeat", task_ignore_result=True, timezone="Europe/Berlin")
app.conf.beat_schedule = {schedule}
{more}
"""
PERIODIC = """
@app.on_after_configure.connect
def periodic(sender, **_):
    sender.add_periodic_task(2.0, sender.signature("shop.count", args=(3,)), name="periodic")
"""
TAKE = """
    INSERT INTO dbbeat_schedule (name, task, kind, expression)
    VALUES ('taken', %(task)s, 'cron', '0 4 * * *')
"""
ROWS = "SELECT * FROM dbbeat_schedule"


def rows(cluster: Cluster) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in cluster.tables.rows(ROWS)}


def restart(cluster: Cluster, schedule: str, more: str = "") -> Process:
    """Run the app as it is written now, until its entries have been synced."""
    for beat in list(cluster.beats):
        cluster.end(beat)
    cluster.write_app(APP.format(schedule=schedule, more=more))
    beat = cluster.start()
    beat.wait_for("lease gained")
    return beat


def test_entries_are_added_edited_and_removed_with_the_code(cluster: Cluster) -> None:
    nightly = '"nightly": {"task": "shop.close", "schedule": crontab(hour=3, minute=30)}'
    beat = restart(
        cluster,
        '{"tick": {"task": "shop.tick", "schedule": 1.0, "args": [1]}, ' + nightly + "}",
        PERIODIC,
    )
    beat.wait_for("beat_schedule synced: 4 written")
    first = rows(cluster)
    assert {row["owner"] for row in first.values()} == {"code"}
    assert set(first) == {"tick", "nightly", "periodic", "celery.backend_cleanup"}
    assert (first["nightly"]["kind"], first["nightly"]["timezone"]) == ("crontab", "Europe/Berlin")
    assert first["periodic"]["args"] == [3]

    edited = '{"tick": {"task": "shop.tick", "schedule": 2.0, "args": [2]}, ' + nightly + "}"
    restart(cluster, edited).wait_for("beat_schedule synced: 1 written, 1 removed")
    second = rows(cluster)
    assert set(second) == {"tick", "nightly", "celery.backend_cleanup"}
    assert (second["tick"]["expression"], second["tick"]["args"]) == ("2", [2])
    assert second["tick"]["id"] == first["tick"]["id"]
    assert second["nightly"] == first["nightly"]
    cluster.tables.wait_until_sent_by("tick")


def test_what_people_manage_is_theirs(cluster: Cluster) -> None:
    cluster.tables.add("mine", every="3600")
    cluster.tables.rows(TAKE, task=TASK)
    before = rows(cluster)
    entry = '"{}": {{"task": "shop.tick", "schedule": 1.0}}'
    schedule = "{" + ", ".join(entry.format(name) for name in ("taken", "paused")) + "}"
    beat = restart(cluster, schedule)
    beat.wait_for("beat_schedule entry 'taken' is left out: people own that name")
    wait_until(lambda: "paused" in rows(cluster), 10, beat.tail)
    cluster.tables.rows("UPDATE dbbeat_schedule SET state = 'paused' WHERE name = 'paused'")
    restart(cluster, schedule).wait_for("people own that name")
    after = rows(cluster)
    assert {name: after[name] for name in before} == before
    assert after["paused"]["state"] == "paused"


def test_an_entry_that_cannot_be_stored_does_not_stop_the_others(cluster: Cluster) -> None:
    bad = '"bad": {"task": "shop.tick", "schedule": 1.0, "args": [object()]}'
    good = '"good": {"task": "shop.tick", "schedule": 1.0}'
    beat = restart(cluster, f"{{{bad}, {good}}}")
    beat.wait_for("beat_schedule entry 'bad' is left out")
    cluster.tables.wait_until_sent_by("good")
    assert "bad" not in rows(cluster)
