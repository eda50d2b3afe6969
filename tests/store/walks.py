"""One walk through all statements of workers, of recovery and of those who look back."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from uuid import UUID

import pytest

from celery_dbbeat.errors import NotFound
from celery_dbbeat.rules.decision import NotSent, Plan, Stop, Stretch
from celery_dbbeat.rules.overlap import Running
from celery_dbbeat.rules.schedule import Cursor
from celery_dbbeat.rules.tick import Tick
from celery_dbbeat.settings import Settings
from celery_dbbeat.store import (
    audit,
    awaited,
    completeness,
    cursors,
    gauges,
    history,
    imports,
    managing,
    overlaps,
    pace,
    runs,
    status,
    ticks,
    workers,
)
from celery_dbbeat.store.awaited import BEGINNING, Closing
from celery_dbbeat.store.cursors import Outgoing
from celery_dbbeat.store.database import Database
from celery_dbbeat.store.imports import ImportedSchedule, Write
from celery_dbbeat.store.managing import Conditions, Draft
from celery_dbbeat.store.runs import Ending, Run
from tests.store.kit import EVERYTHING, HEDGE, TTL, Person, dispatch

NOON = datetime(2026, 1, 10, 12, tzinfo=timezone.utc)
UNKNOWN = UUID(int=0)
RUN = Run(UUID(int=1), NOON, "one", 1, 0, "celery@one")


def work(store: Database) -> None:
    """A worker comes, has a tick that nobody else gets, writes its effect, and goes."""
    workers.announce(store, "celery@one", workers.Reading(["celery"]), "0.1.0")
    assert runs.take(store, RUN, TTL) == RUN
    assert runs.take(store, RUN, TTL) is None
    runs.renew(store, [RUN], TTL)
    runs.note_stale(store, RUN)
    effect = {**RUN.key(), "schedule": RUN.schedule, "worker": RUN.worker}
    assert len(store.run("mark_effect", **effect).all) == 1
    assert runs.finish(store, RUN, Ending("done", "SUCCESS"))
    assert runs.is_done(store, RUN)
    assert not runs.is_cancelled(store, RUN.task_id)
    key = {"task_id": RUN.task_id, "nominal_at": RUN.nominal_at}
    assert store.run("effect_status", **key).one()["status"] == "done"
    runs.discard(store, RUN, Ending("failed", "REVOKED", "somebody revoked it"))
    workers.forget(store, "celery@one")


def recover(store: Database, person: Person) -> None:
    """A tick is awaited, looked into, sent again, and given up."""
    person.add_due("lost")
    (sent,) = dispatch(store)
    assert ticks.mark_sent(store, [sent], guarded=True) == 1
    found = awaited.settle(store, BEGINNING, 10)
    now, (suspect,) = awaited.suspects(store, found.unsettled)
    assert now is not None
    assert awaited.overtaken(store, [suspect]) == set()
    (again,) = awaited.resend(store, [suspect], "a")
    assert ticks.mark_sent(store, [again], guarded=True) == 1
    found = awaited.settle(store, BEGINNING, 10)
    _, (suspect,) = awaited.suspects(store, found.unsettled)
    assert awaited.close(store, [(suspect, Closing("dead", "why"))]) == {suspect.task_id}
    assert awaited.revive(store) == 0
    assert awaited.queue_readers(store) == {}


def hold_back(store: Database, person: Person) -> None:
    """A late one waits for its turn, one for a run that is cancelled; both are let go."""
    late, waiting = person.add_due("late", "waiting", overlap="buffer_one")
    with store.transaction() as transaction:
        assert pace.take(transaction, timedelta(0)) is not None
        now, due = cursors.claim(transaction, EVERYTHING, HEDGE, 10)
        assert now is not None
        stands = {late: Cursor(NOON, None, waits_for="turn", waits_since=now),
                  waiting: Cursor(NOON, None, waits_for="run", waits_since=now)}  # fmt: skip
        cursors.record(transaction, [(one, Plan(stands[one.schedule.id])) for one in due], "a")
        pace.charge(transaction, now)
    assert pace.note_usual(store, 7)
    with store.transaction() as transaction:
        (claimed,) = cursors.claim_late(transaction, EVERYTHING, 10)
        assert cursors.unsent_of(transaction, [late]) == set()
        cursors.postpone(transaction, [late])
    missed = NotSent("missed", NOON, NOON, 1, "why")
    longer = NotSent("missed", NOON + TTL, NOON + TTL, 1, "why", Stretch(NOON, NOON))
    for one in (missed, longer):
        with store.transaction() as transaction:
            stand = Plan(replace(claimed.cursor, range_at=NOON), not_sent=(one,))
            cursors.record(transaction, [(claimed, stand)], "a")
    assert [(row["count"], row["last_at"]) for row in person.ticks(late)] == [(2, NOON + TTL)]
    tick = Outgoing(claimed.schedule, Tick(UNKNOWN, NOON, NOON))
    with store.transaction() as transaction:
        overlaps.open_ticks(transaction, [tick])
        assert overlaps.running(transaction, [late]) == {}  # nobody knows of such a tick
        overlaps.cancel(transaction, [(late, Stop(Running(NOON, UNKNOWN), "why"))])
        assert overlaps.waiting(transaction, overlaps.BEGINNING, 10).at_once == {waiting: 1}
        assert overlaps.let_go(transaction, [waiting]) == 1
    assert not runs.is_cancelled(store, UNKNOWN)
    person.do("DELETE FROM dbbeat_schedule WHERE id IN (%s, %s)", late, waiting)


def look_back(store: Database) -> None:
    """What `recover` left dead is found and sent again."""
    with store.transaction() as transaction:
        (entry,) = history.history(transaction, "lost", 10, None)
        (letter,) = history.dead(transaction, 10, "lost")
        assert letter.task_id == entry.task_id
        history.replay(transaction, letter.task_id)
    with store.transaction() as transaction:
        assert history.replay_all(transaction, None) == 0
    with pytest.raises(NotFound), store.transaction() as transaction:
        history.replay(transaction, UNKNOWN)


def manage(store: Database) -> None:
    """A schedule is made, read, changed and deleted."""
    draft = Draft(name="managed", task="t", kind="interval", expression="60")
    with store.transaction() as transaction:
        transaction.run("act_as", user="ada", source="api")
        assert managing.put(transaction, [draft], overwrite=False).created == ("managed",)
        (found,) = managing.page(transaction, Conditions(task="t", after="m"), 1)
        rare = Conditions(labels='{"rare": true}', words="'rare':*")
        assert managing.page(transaction, rare, 1) == []
        assert found.draft() == replace(draft, state="active")
        (held,) = transaction.run("lock_schedule", name="managed").all
        assert managing.change(transaction, held["id"], held["version"], draft)
        assert managing.owners(transaction, ["managed"]) == {"managed": "people"}
        assert status.look(transaction, TTL, TTL).schedules["active"].value > 0
        assert managing.delete(transaction, ["managed"]) == 1


def look_into(store: Database) -> None:
    """What is known of the schedules of the walks before: who changed them, and what is owed."""
    with store.transaction() as transaction:
        assert [one.action for one in audit.changes(transaction, "lost", 10)] == ["insert"]
        (story,) = audit.stories(transaction, audit.bearers(transaction, "lost"))
        assert history.decided_at(transaction, story.schedule_id, NOON) == []
    now = store.now()
    found = completeness.check(store, now - TTL, now, TTL, 10)
    assert found.schedules > 0


def bring_in(store: Database) -> None:
    """A schedule comes from another beat, goes on from there, and comes again."""
    schedule = ImportedSchedule("7", "imported", "t", "interval", "60", "UTC")
    for digest in ("first", "second"):
        found = imports.earlier(store, "elsewhere", ["imported"])
        assert all(one.is_as_imported for one in found)
        write = Write(schedule, digest, NOON, *found)
        with store.transaction() as transaction:
            assert imports.write(transaction, "elsewhere", [write]) == {"imported"}


def watch(store: Database) -> None:
    """What the leader shows of all tables, and what a probe asks of them."""
    settings = Settings(url="")
    known = {(one.metric.name, one.value): one.numbers[0] for one in gauges.read(store, settings)}
    assert known["dbbeat_schedules", "active"] > 0
    assert known["dbbeat_workers", ""] == 0
    assert gauges.replicas_of(store, "nowhere", 10) == []
