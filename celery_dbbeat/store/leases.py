"""Who goes first on which shards, and who is alive."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from celery_dbbeat.errors import SettingsError
from celery_dbbeat.store.cursors import SHARDS, Holding
from celery_dbbeat.store.database import Database, Transaction


@dataclass(frozen=True, slots=True)
class Replica:
    """One beat process, as the others see it."""

    id: str
    hostname: str
    pid: int
    release: str


@dataclass(frozen=True, slots=True)
class Lease:
    """One slot held: a range of shards, and the epoch of this holding."""

    slot: int
    first_shard: int
    last_shard: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Standing:
    """What a heartbeat learned: the leases renewed, and how many this replica ought to hold."""

    now: datetime
    leases: tuple[Lease, ...]
    share: int


def heartbeat(
    database: Database, me: Replica, *, ready: bool, listener_pid: int | None, ttl: timedelta
) -> Standing:
    """Say that this replica is alive, and renew what it holds."""
    row = database.run(
        "heartbeat",
        replica=me.id,
        hostname=me.hostname,
        pid=me.pid,
        release=me.release,
        ready=ready,
        listener_pid=listener_pid,
        lease_ttl=ttl,
    ).one()
    live = row["number"] + 1
    share = row["slots"] // live + (row["before"] < row["slots"] % live)
    columns = (row["held_slots"], row["first_shards"], row["last_shards"], row["epochs"])
    leases = tuple(Lease(*lease) for lease in zip(*columns, strict=True))
    return Standing(row["now"], leases, share if ready else 0)


def acquire(database: Database, replica: str, ttl: timedelta, limit: int) -> tuple[Lease, ...]:
    """Take up to so many free slots; returns those it won."""
    rows = database.run("acquire", replica=replica, lease_ttl=ttl, limit=limit).all
    return tuple(Lease(**row) for row in rows)


def resign(database: Database, replica: str, channel: str, keep: int) -> None:
    """Give back all slots but so many."""
    database.run("resign", replica=replica, channel=channel, keep=keep)


def leave(database: Database, replica: str, channel: str) -> None:
    """Say that this replica stops: what it held is free at once."""
    database.run("leave", replica=replica, channel=channel)


def tell(database: Database | Transaction, channel: str, what: str) -> None:
    """Say something to all replicas that listen."""
    database.run("tell", channel=channel, what=what)


def reslice(transaction: Transaction, slots: int, channel: str) -> None:
    """Cut the shards into so many slots, all of them free."""
    if not 1 <= slots <= SHARDS:
        raise SettingsError(f"{slots} slots are asked for; allowed is 1 to {SHARDS}")
    transaction.run("lock_leases")
    transaction.run("reslice", slots=slots)
    tell(transaction, channel, "lease")


def holding(leases: tuple[Lease, ...]) -> Holding:
    """The shards of these leases."""
    return Holding(
        {
            shard: lease.epoch
            for lease in leases
            for shard in range(lease.first_shard, lease.last_shard + 1)
            if shard < SHARDS
        }
    )
