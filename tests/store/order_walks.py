"""One walk through all statements of what people order."""

from datetime import datetime, timedelta, timezone
from uuid import UUID

from celery_dbbeat.rules.backfill import Carved, FireTime
from celery_dbbeat.rules.trigger import Walk
from celery_dbbeat.store import backfills, orders, slices
from celery_dbbeat.store.backfills import Wish
from celery_dbbeat.store.database import Database
from celery_dbbeat.store.slices import Progress
from tests.store.kit import Person

NOON = datetime(2026, 1, 10, 12, tzinfo=timezone.utc)
UNKNOWN = UUID(int=0)


def give_orders(store: Database, person: Person) -> None:
    """A schedule is paused, resumed, triggered, and paused because it fails."""
    identity = person.add("ordered", pause_after=1)
    with store.transaction() as transaction:
        orders.pause(transaction, "ordered", "why")
        assert orders.resume(transaction, "ordered")
        assert not orders.resume(transaction, "ordered")
        orders.trigger(transaction, "ordered", [1], None)
    assert orders.failing(store, [identity]) == []
    one = orders.Failing(identity, "ordered", person.schedule(identity)["version"], 1, ())
    assert orders.pause_failing(store, one, "it fails", "a")
    assert person.schedule(identity)["note"] == "it fails"


def backfill(store: Database, person: Person) -> None:
    """One slice of a backfill: a tick in the row of a range, one in a row of its own."""
    identity = person.add("past", expression="3600")
    person.do(
        "INSERT INTO dbbeat_tick (schedule_id, nominal_at, task_id, state, due_at, replica,"
        " last_at, count, reason) VALUES (%s, %s, %s, 'missed', %s, 'a', %s, 4, 'late')",
        identity, NOON, UNKNOWN, NOON, NOON + timedelta(hours=3),
    )  # fmt: skip
    with store.transaction() as transaction:
        number = backfills.order(transaction, identity, Wish(NOON, None))
        assert number is not None
        (listed,) = backfills.listed(transaction, schedule_id=identity)
        assert transaction.run("schedule_by_name", name="past").one()["schedule_id"] == identity
        assert backfills.turn(transaction, number, "stopped", "running")
        assert backfills.turn(transaction, number, "running", "stopped")
    assert (listed.id, listed.share) == (number, 0.0)
    assert slices.under_way(store) == [number]
    with store.transaction() as transaction:
        locked = slices.lock(transaction, number)
        assert locked is not None
        stands, alone = slices.stand(transaction, identity)
        assert stands is not None
        assert alone
        assert not slices.own_under_way(transaction, locked)
        assert slices.range_before(transaction, identity, NOON + timedelta(hours=1))
        (whole,) = slices.known(transaction, identity, [(NOON, UNKNOWN)]).values()
        rest = Carved(whole, Walk(1, NOON, None), NOON + timedelta(hours=2), 2)
        slices.leave_rest(transaction, rest, "a", identity)
        ids = (UNKNOWN, UUID(int=5))
        chosen = [FireTime(NOON, one, "missed", "send") for one in ids]
        rows = {UNKNOWN: whole}
        assert len(slices.record(transaction, stands.schedule, chosen, rows, "a")) == 2
        slices.set_aside(transaction, whole, identity)
        slices.move(transaction, number, Progress(NOON, NOON, [(NOON, UNKNOWN)], sent=2))
        slices.end(transaction, number, "finished")
