"""A tick: one schedule × one nominal time, and what follows from that identity alone."""

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from hashlib import sha1
from uuid import UUID

UTC = timezone.utc

#: What people ordered has no grace: it was wanted when its fire time was long past.
ORDERED = frozenset({"manual", "backfill"})


@dataclass(frozen=True, slots=True)
class Tick:
    """One fire time that is to be sent.

    `waited` is how long ago it was sent first: its `expires` runs from then on.
    """

    task_id: UUID
    nominal_at: datetime
    due_at: datetime
    kind: str = "scheduled"
    attempt: int = 1
    waited: timedelta = timedelta(0)


def task_id(schedule_id: UUID, nominal_at: datetime) -> UUID:
    """The id under which this tick is sent, however often and by whomever.

    `uuid5(schedule id, nominal time in UTC)`, the time as ISO-8601.
    """
    name = nominal_at.astimezone(UTC).isoformat()
    # uuid.uuid5 does the same; this spares its checks, which cost more than the hash.
    digest = bytearray(sha1(schedule_id.bytes + name.encode(), usedforsecurity=False).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    return UUID(bytes=bytes(digest))


def due_at(identity: UUID, nominal_at: datetime, jitter: timedelta) -> datetime:
    """Nominal time plus jitter: a hash of the tick, the same for every replica at every time."""
    if not jitter:
        return nominal_at
    return nominal_at + jitter * ((identity.int & 0xFFFFFFFF) / 0x100000000)
