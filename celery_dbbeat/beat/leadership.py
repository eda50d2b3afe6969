"""Who goes first.

The 256 shards are cut into slots, one by default; a lease on a slot is the right to go first on
its shards. A lease is efficiency, never safety: two replicas that both believe they hold it only
find that `SKIP LOCKED` gives each cursor to one of them.

    standby ──acquire (free, run out, or holder gone)──▶ holder ──renew every third of its time──┐
       ▲                                                   │  ▲                                  │
       └───────────── resign · run out · resliced ─────────┘  └──────────────────────────────────┘

- The epoch of a lease grows at each change of hands.
- Live and ready replicas share the slots out evenly, the ones started first getting what is left
  over. A replica that holds more than its share gives the surplus back; one that cannot reach the
  broker is not ready and holds none.
- A replica that stops gives everything back and says so, and the next takes it at once. One that
  was killed is known to be gone as soon as Postgres misses its listening connection; one that
  hangs or is cut off, when its lease runs out. Until then the others hedge.
- A lost lease makes a standby, never an exit.
"""

import logging
from datetime import timedelta

from celery_dbbeat.clock import monotonic
from celery_dbbeat.observe import beat as observe
from celery_dbbeat.observe.logs import facts
from celery_dbbeat.settings import Settings
from celery_dbbeat.store import leases
from celery_dbbeat.store.cursors import Holding
from celery_dbbeat.store.database import Database
from celery_dbbeat.store.leases import Lease, Replica

logger = logging.getLogger(__name__)


class Leadership:
    """The leases of one replica."""

    def __init__(self, database: Database, settings: Settings, me: Replica) -> None:
        """Hold nothing yet."""
        self._database = database
        self._ttl = timedelta(seconds=settings.lease_ttl)
        self._renew_every = settings.renew_every
        self._me = me
        self._leases: tuple[Lease, ...] = ()
        self._renew_at = float("-inf")
        self._said: tuple[bool, int | None] | None = None
        self.holding = Holding({})

    @property
    def leads(self) -> bool:
        """Whether this replica does what only one of them should: it holds the first slot."""
        return any(lease.slot == 0 for lease in self._leases)

    @property
    def seconds_until_renewal(self) -> float:
        """How long until `keep` has something to do."""
        return max(0.0, self._renew_at - monotonic())

    def hurry(self) -> None:
        """Let the next `keep` not wait for its time."""
        self._renew_at = float("-inf")

    def keep(self, channel: str, *, ready: bool, listener_pid: int | None) -> bool:
        """Renew, take or give back leases, when it is time to; says whether that changed any."""
        if self._said == (ready, listener_pid) and self.seconds_until_renewal > 0:
            return False
        # Timed from before the question: nobody else can hold it while it is believed here.
        asked_at = monotonic()
        standing = leases.heartbeat(
            self._database, self._me, ready=ready, listener_pid=listener_pid, ttl=self._ttl
        )
        held = standing.leases
        if len(held) > standing.share or not ready:
            leases.resign(self._database, self._me.id, channel, keep=standing.share)
            held = held[: standing.share]
        elif len(held) < standing.share:
            missing = standing.share - len(held)
            held += leases.acquire(self._database, self._me.id, self._ttl, missing)
        self._said = (ready, listener_pid)
        self._renew_at = asked_at + self._renew_every
        return self._hold(held)

    def lose(self) -> None:
        """Believe in nothing until the database answers again."""
        self._hold(())
        self.hurry()

    def leave(self, channel: str) -> None:
        """Give everything back, for good."""
        leases.leave(self._database, self._me.id, channel)
        self._hold(())

    def _hold(self, held: tuple[Lease, ...]) -> bool:
        before = {(lease.slot, lease.epoch) for lease in self._leases}
        after = {(lease.slot, lease.epoch) for lease in held}
        for slot, epoch in sorted(after - before):
            logger.info(
                "lease gained: slot %d, epoch %d",
                slot,
                epoch,
                extra=facts("lease_gained", slot=slot, epoch=epoch, replica=self._me.id),
            )
        for slot, epoch in sorted(before - after):
            logger.info(
                "lease lost or given back: slot %d, epoch %d",
                slot,
                epoch,
                extra=facts("lease_lost", slot=slot, epoch=epoch, replica=self._me.id),
            )
        if before != after:
            observe.leases(len(after), len(after - before), len(before - after))
            self.holding = leases.holding(held)
        self._leases = held
        return before != after
