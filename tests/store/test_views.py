"""The views for people and BI tools."""

from datetime import datetime, timedelta, timezone

from celery_dbbeat.store.database import Database
from tests.api.kit import NOON, SECOND, Clerk
from tests.store.kit import Person, dispatch


def test_what_comes_next(person: Person) -> None:
    later = person.add("later", options={"queue": "slow"}, labels={"team": "a"})
    person.add_due("soon")
    person.add("asleep", state="paused")
    person.do(
        "UPDATE dbbeat_cursor SET due_at = now() + interval '1 day', replan_from = NULL"
        " WHERE schedule_id = %s",
        later,
    )
    soon, after = person.do("SELECT * FROM dbbeat_upcoming ORDER BY due_at")
    assert (soon["schedule"], after["schedule"]) == ("soon", "later")
    assert soon["due_in"] < timedelta(0) < after["due_in"]
    assert (after["queue"], after["labels"]) == ("slow", {"team": "a"})
    assert not after["being_planned"]


def test_one_that_is_new_is_being_planned(person: Person, store: Database) -> None:
    person.add("new")
    assert person.value("SELECT being_planned FROM dbbeat_upcoming")
    dispatch(store)
    assert not person.value("SELECT being_planned FROM dbbeat_upcoming")


def test_what_was(database_url: str) -> None:
    clerk = Clerk(database_url)
    nightly = clerk.add()
    clerk.run(clerk.tick(nightly))
    clerk.tick(nightly, NOON - 2 * SECOND, "missed", sent_at=None, reason="too late", count=3)
    gone = clerk.tick(nightly, NOON - 4 * SECOND)
    sent, missed, _ = clerk.do("SELECT * FROM dbbeat_history ORDER BY nominal_at DESC")
    assert (sent["schedule"], sent["task"], sent["run"]) == ("nightly", "t", "done")
    assert (sent["sent_late"], sent["took"]) == (SECOND / 2, 2 * SECOND)
    assert (missed["state"], missed["count"], missed["reason"]) == ("missed", 3, "too late")
    assert (missed["run"], missed["sent_late"]) == (None, None)
    clerk.do("DELETE FROM dbbeat_schedule")
    clerk.run(gone, NOON - 4 * SECOND)
    (kept,) = clerk.do("SELECT * FROM dbbeat_history WHERE task_id = %s", gone)
    assert (kept["schedule"], kept["task"]) == ("nightly", None)
    clerk.close()


def test_bi_tools_may_ask_for_days_without_any_row(person: Person) -> None:
    asked = datetime(2020, 1, 1, tzinfo=timezone.utc)
    assert person.do("SELECT * FROM dbbeat_history WHERE nominal_at < %s", asked) == []
