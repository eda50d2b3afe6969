"""What a replica can do next. Each step is one statement or one message; between two, anything."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from uuid import UUID

from celery_dbbeat.rules.plan import plan
from celery_dbbeat.rules.recovery import Limits, Open, Queue, judge
from celery_dbbeat.rules.schedule import Cursor, Schedule
from tests.model.world import Message, Replica, Row, World

EVERY = timedelta(minutes=1)
FIRST = datetime(2026, 1, 1, tzinfo=timezone.utc)
SCHEDULE = Schedule(
    id=UUID(int=1),
    version=1,
    name="model",
    task="t",
    kind="interval",
    expression="60",
    start_at=FIRST,
    misfire_grace=None,
)
LIMITS = Limits(max_attempts=4, resend_after=timedelta(microseconds=1))
# When `judge` is asked: a lease runs still, or ran out before or after the tick was sent again.
_NOW = FIRST + timedelta(days=1)
_HOUR = timedelta(hours=1)

Step = tuple[str, World]


def instant(fires: int) -> datetime:
    """The moment at which so many fire times are due."""
    return FIRST + EVERY * (fires - 1)


def beginning(fires: int) -> tuple[Schedule, Cursor]:
    """A schedule with so many fire times, and a cursor at the first of them."""
    return replace(SCHEDULE, end_at=instant(fires)), Cursor(FIRST, FIRST)


def steps(world: World, me: Replica, schedule: Schedule, without: frozenset[str]) -> Iterator[Step]:
    """All that this replica can do next; `without` names guards that are left out."""
    if me.at == "idle":
        yield from _claim(world, me, without)
        yield from _adopt(world, me, without)
        yield from _recover(world, me, without)
    elif me.at == "claimed":
        yield from _record(world, me, schedule, without)
    elif me.at == "sending":
        yield from _publish_and_mark(world, me, without)


def _claim(world: World, me: Replica, without: frozenset[str]) -> Iterator[Step]:
    due = world.cursor.due_at
    if due is None or due > instant(world.now):
        return
    if world.lock is None or "the claim's lock" in without:
        claimed = me._replace(at="claimed", cursor=world.cursor, claimed_at=world.now)
        yield f"{me.name} claims", world.replica(claimed)._replace(lock=me.name)


def _record(
    world: World, me: Replica, schedule: Schedule, without: frozenset[str]
) -> Iterator[Step]:
    """Plan and commit. Who lost the lock, as the server ended the transaction, commits nothing."""
    if world.lock != me.name and "the claim's lock" not in without:
        yield f"{me.name} cannot commit", world.replica(Replica(me.name))
        return
    assert me.cursor is not None
    decided = plan(schedule, me.cursor, instant(me.claimed_at), guarded=True)
    salt = me.name if "one id a fire time" in without else ""
    wanted = [Row(_number(tick.nominal_at), salt, "recorded", 1, me.name) for tick in decided.ticks]
    known = {(row.fire, row.salt) for row in world.ticks}
    new = [row for row in wanted if (row.fire, row.salt) not in known]
    left_out = {
        fire
        for one in decided.not_sent
        for fire in range(_number(one.first_at), _number(one.last_at) + 1)
    }
    batch = tuple(row.message for row in new)
    sending = me._replace(at="sending", cursor=None, claimed_at=0, batch=batch, published=())
    after = world._replace(
        cursor=decided.cursor,
        lock=None if world.lock == me.name else world.lock,
        ticks=tuple(sorted([*world.ticks, *new])),
        not_sent=tuple(sorted({*world.not_sent, *left_out})),
    ).replica(sending)
    if "record before publish" in without and not me.published:
        early = world.replica(me._replace(published=batch))
        for message in batch:
            early = early.send(message)
        yield f"{me.name} publishes before it records", early
        return
    if "record before publish" in without:
        after = after.replica(sending._replace(batch=(), published=batch))
    yield f"{me.name} records", after


def _publish_and_mark(world: World, me: Replica, without: frozenset[str]) -> Iterator[Step]:
    if "publish before mark" in without and me.batch and not me.published:
        marked = _mark(world, me.batch).replica(me._replace(published=me.batch))
        yield f"{me.name} marks before it publishes", marked
    elif me.batch:
        message, *rest = me.batch
        after = me._replace(batch=tuple(rest), published=(*me.published, message))
        yield f"{me.name} publishes {message.fire}", world.send(message).replica(after)
    else:
        done = _mark(world, me.published)
        yield f"{me.name} marks", done.replica(Replica(me.name))


def _mark(world: World, published: tuple[Message, ...]) -> World:
    for message in published:
        row = world.tick_of(message)
        if row is not None and row.state == "recorded" and row.attempt == message.attempt:
            world = world.tick(row._replace(state="sent"))
    return world


def _adopt(world: World, me: Replica, without: frozenset[str]) -> Iterator[Step]:
    """What somebody recorded and did not mark: it died, or is taken for dead while it is slow."""
    if "adoption" in without:
        return
    for row in world.ticks:
        slow = any(row.message in one.batch + one.published for one in world.replicas)
        allowed = world.spend("haste") if slow else world
        if row.state == "recorded" and row.owner != me.name and allowed is not None:
            adopted = allowed.tick(row._replace(owner=me.name))
            sending = me._replace(at="sending", batch=(row.message,))
            yield f"{me.name} adopts {row.fire}", adopted.replica(sending)


def _recover(world: World, me: Replica, without: frozenset[str]) -> Iterator[Step]:
    """Ask the real rule about each tick that is sent and not done."""
    if "recovery" in without:
        return
    for row in world.ticks:
        run = world.run_of(row.message)
        if row.state != "sent" or (run is not None and run.status == "done"):
            continue
        verdict = judge(_open(world, row), LIMITS, _queue(world), _NOW)
        slow = any(worker.at == "got" and worker.message == row.message for worker in world.workers)
        allowed = world.spend("haste") if slow else world
        if allowed is None:
            continue
        if verdict.action == "bury":
            yield f"{me.name} gives {row.fire} up", allowed.tick(row._replace(state="dead"))
        elif verdict.action == "resend":
            attempt = max(row.attempt, run.attempt if run else 0) + 1
            again = row._replace(
                state="recorded", attempt=attempt, owner=me.name, losses=row.losses + 1
            )
            after = allowed.tick(again)
            if run is not None and run.expired:
                after = after.run(run._replace(seen=True))
            sending = me._replace(at="sending", batch=(again.message,))
            yield f"{me.name} sends {row.fire} again", after.replica(sending)


def _open(world: World, row: Row) -> Open:
    run = world.run_of(row.message)
    lease_until = None
    if run is not None:
        lease_until = _NOW - _HOUR if run.expired else _NOW + _HOUR
    seen = run is None or run.seen
    claimed_at = _NOW - _HOUR / 2 if seen else _NOW - 2 * _HOUR
    return Open(
        row.attempt,
        row.losses,
        due_at=FIRST,
        claimed_at=claimed_at,
        sent_at=claimed_at,
        status=None if run is None else run.status,
        run_attempt=0 if run is None else run.attempt,
        lease_until=lease_until,
    )


def _queue(world: World) -> Queue:
    held = any(worker.at == "got" for worker in world.workers)
    return Queue(guarded=True, empty=not world.messages, held=held)


def _number(nominal: datetime) -> int:
    return (nominal - FIRST) // EVERY
