"""One replica: a pass over everything there is to do, then a wait for the next thing.

A pass never raises for a database or broker that is away: it says so, waits a little longer each
time, and tries again. The wait ends at the next due time by the database's clock, at a
notification, or when a lease is to be renewed, whichever comes first.
"""

import logging
import os
import socket
import uuid
from datetime import timedelta

from celery import Celery

from celery_dbbeat.beat.backfill import Backfills
from celery_dbbeat.beat.catch_up import Usual
from celery_dbbeat.beat.dispatcher import Dispatcher
from celery_dbbeat.beat.leadership import Leadership
from celery_dbbeat.beat.listener import Listener
from celery_dbbeat.beat.overlaps import Waiting
from celery_dbbeat.beat.publisher import Publisher
from celery_dbbeat.beat.recovery import Recovery
from celery_dbbeat.clock import DatabaseClock, monotonic
from celery_dbbeat.errors import BrokerUnavailable, DatabaseUnavailable, DbbeatError
from celery_dbbeat.observe import beat as observe
from celery_dbbeat.observe.logs import facts
from celery_dbbeat.observe.pulse import Condition, Pulse, stuck_after
from celery_dbbeat.release import __version__
from celery_dbbeat.settings import Settings
from celery_dbbeat.store import housekeeping, leases, migrate, schedules
from celery_dbbeat.store.cursors import Outlook
from celery_dbbeat.store.database import Database
from celery_dbbeat.store.schedules import CodeSchedule

logger = logging.getLogger(__name__)

_LOOK_EVERY = 1.0
#: How often what is due is looked at while somebody else has it locked.
_LOOK_AT_LOCKED_EVERY = 0.1
_GREETING_TAKES = 0.2
_LONGEST_PASS = 0.5
_KEEP_HOUSE_EVERY = 3600.0
_KEEP_ON_AFTER = 1.0
_LONGEST_BACK_OFF = 2.0


class Replica:
    """Everything a beat process does, but for being a Celery scheduler."""

    def __init__(self, app: Celery, settings: Settings, code: dict[str, CodeSchedule]) -> None:
        """Touch nothing yet: the first pass connects."""
        hostname, pid = socket.gethostname(), os.getpid()
        self.id = f"{hostname}:{pid}:{uuid.uuid4().hex[:8]}"
        me = leases.Replica(self.id, hostname, pid, __version__)
        self._settings = settings
        self._code = code
        self._database = Database(
            settings.url, settings.schema, settings.database_timeout, max(settings.hedge_after, 1.0)
        )
        self._listener = Listener(
            settings.listen_url or settings.url, settings.database_timeout, self.id
        )
        self._publisher = Publisher(app, settings.broker_timeout)
        self._dispatcher = Dispatcher(self._database, self._publisher, settings, self.id)
        self._recovery = Recovery(
            self._database, self._publisher, self._dispatcher, settings, self.id
        )
        self._backfills = Backfills(self._database, self._dispatcher, settings, self.id)
        self._recovery.distrust_leases()  # who knows what was before
        self._leadership = Leadership(self._database, settings, me)
        self._usual = Usual(self._database)
        self._waiting = Waiting(self._database)
        self._clock = DatabaseClock()
        self._channel: str | None = None
        self._outlook: Outlook | None = None
        self._led = False
        self.pulse = Pulse(stuck_after(settings.lease_ttl))
        self._failures = 0
        self._failed_at = 0.0
        self._look_at = self._locked_until = float("-inf")
        self._keep_house_at = float("-inf")
        self._closed = False

    def step(self) -> float:
        """Do all there is to do now; returns how many seconds there is nothing to do."""
        try:
            return self._step()
        except DatabaseUnavailable as error:
            self._leadership.lose()
            self._recovery.distrust_leases()
            return self._back_off("database", f"the database cannot be reached: {error}")
        except BrokerUnavailable as error:
            return self._back_off("broker", str(error))
        except DbbeatError as error:
            return self._back_off("other", str(error))
        except Exception:
            # Nothing that goes wrong in one pass may end the replica: the next starts afresh.
            logger.exception("a pass failed in a way that nobody foresaw")
            self._database.close()
            self._publisher.close()
            return self._back_off("other", "a pass failed")

    def wait(self, seconds: float) -> None:
        """Sleep, unless something is heard before."""
        self.pulse.expect(seconds)
        heard = self._listener.wait(seconds)
        if heard:
            self._look_at = self._locked_until = float("-inf")
        if heard & {"lease", "lost"}:
            self._leadership.hurry()
        if heard & {"backfill", "lost"}:
            self._backfills.hurry()

    def close(self) -> None:
        """Hand over and let go; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._channel is not None:
                self._dispatcher.finish()
                self._leadership.leave(self._channel)
        except DbbeatError as error:
            logger.warning("could not hand over, the others will notice by themselves: %s", error)
        finally:
            self._listener.close()
            self._database.close()
            self._publisher.close()

    def _step(self) -> float:
        channel = self._prepare()
        if self._listener.open(channel):
            leases.tell(self._database, channel, self.id)
            # Heard before anything is claimed: who dies from here on is known to be gone at once.
            self.wait(_GREETING_TAKES)
        ready = self._broker_ready()
        changed = self._leadership.keep(
            channel, ready=ready is None, listener_pid=self._listener.server_pid
        )
        if ready is not None:
            raise ready
        if self._leadership.leads:
            self._lead()
        if self._leadership.holding.epochs:
            self._usual.keep(self._dispatcher.on_time)
        self._led = self._leadership.leads
        freed = self._waiting.look() if self._waiting.seconds_until_next <= 0 else 0
        if changed or freed or self._is_time():
            self._dispatch()
        if self._led and self._recovery.seconds_until_next <= 0:
            self._recovery.run()
        if self._led and self._outlook is not None and self._backfills.seconds_until_next <= 0:
            self._backfills.run()
        self._went_well()
        return self._seconds_of_rest()

    def _prepare(self) -> str:
        """Check the tables at first contact; returns the channel of their notifications."""
        if self._channel is None:
            if self._settings.auto_migrate:
                with self.pulse.take_time():
                    migrate.migrate(self._settings.url, self._settings.schema)
            migrate.check(self._database)
            home = self._database.run("home_schema").one()["name"]
            self._channel = f"dbbeat_{home}"
        return self._channel

    def _broker_ready(self) -> BrokerUnavailable | None:
        try:
            self._publisher.ensure()
        except BrokerUnavailable as error:
            return error
        return None

    def _lead(self) -> None:
        """What only one replica should do: sync the app's own entries, and keep house."""
        if not self._led:
            with self._database.transaction() as transaction:
                transaction.act_as(self.id, "code")
                synced = schedules.sync_code(transaction, self._code)
            for name in synced.taken:
                logger.error("beat_schedule entry %r is left out: people own that name", name)
            if synced.written or synced.removed:
                logger.info(
                    "beat_schedule synced: %d written, %d removed",
                    len(synced.written),
                    len(synced.removed),
                )
        if monotonic() >= self._keep_house_at:
            self._keep_house_at = monotonic() + _KEEP_HOUSE_EVERY
            try:
                if not housekeeping.keep(self._database, self._settings.retention):
                    self._keep_house_at = monotonic() + _KEEP_ON_AFTER
            except DbbeatError as error:
                # Dispatching does not need it: ticks without a partition go to the default one.
                logger.error("housekeeping failed, the next try is in an hour: %s", error)  # noqa: TRY400 - no fault of ours

    def _is_time(self) -> bool:
        return self._seconds_until_due() <= 0 or monotonic() >= self._look_at

    def _dispatch(self) -> None:
        outlook, hedged = self._dispatcher.run(self._leadership.holding, _LONGEST_PASS)
        if outlook is not None and outlook.unsent_since is not None and self._dispatcher.recover():
            outlook = None  # there may be more: look again at once
        if hedged:
            self._leadership.hurry()
        self._waiting.observe(waiting=self._dispatcher.waiting, leads=self._led)
        before, self._outlook = self._outlook, outlook
        if outlook is not None:
            self._clock.observe(outlook.now)
            if before is not None and self._seconds_until_claim(before) <= 0:
                same = (outlook.held_due, outlook.any_due) == (before.held_due, before.any_due)
                self._locked_until = monotonic() + (_LOOK_AT_LOCKED_EVERY if same else 0)
        self._look_at = monotonic() + (
            self._settings.lease_ttl if self._listener.works else _LOOK_EVERY
        )

    def _seconds_of_rest(self) -> float:
        rest = [self._seconds_until_due(), self._waiting.seconds_until_next]
        if self._led:
            rest += [self._recovery.seconds_until_next, self._backfills.seconds_until_next]
        return min(rest)

    def _seconds_until_due(self) -> float:
        outlook = self._outlook
        if outlook is None:
            return 0.0
        rest = [self._leadership.seconds_until_renewal, self._look_at - monotonic()]
        rest.append(max(self._seconds_until_claim(outlook), self._locked_until - monotonic()))
        rest.append(self._dispatcher.seconds_until_late)
        if outlook.unsent_since is not None:
            rest.append(self._settings.hedge_after)
        return max(0.0, min(rest))

    def _seconds_until_claim(self, outlook: Outlook) -> float:
        """How long until there is something to claim: on its own shards, or in others' stead."""
        hedge = timedelta(seconds=self._settings.hedge_after)
        dues = [outlook.held_due, None if outlook.any_due is None else outlook.any_due + hedge]
        waits = (self._clock.seconds_until(due) for due in dues if due is not None)
        return min(waits, default=float("inf"))

    def _went_well(self) -> None:
        if self._failures:
            away = monotonic() - self._failed_at
            told = facts("back", was=self.pulse.condition.reason, seconds=away)
            logger.warning("all is well again after %.1f s", away, extra=told)
            self._failures = 0
        observe.pass_over(failed=None)
        self.pulse.found(Condition(ready=True, leads=self._led))

    def _back_off(self, failed: str, trouble: str) -> float:
        self._outlook = None
        if not self._failures:
            self._failed_at = monotonic()
        self._failures += 1
        observe.pass_over(failed)
        self.pulse.found(Condition(ready=False, reason=trouble))
        seconds = min(_LONGEST_BACK_OFF, 0.1 * 2.0 ** min(self._failures - 1, 10))
        told = facts("away", dependency=failed, tries=self._failures)
        logger.error("%s; trying again in %.1f s", trouble, seconds, extra=told)
        return seconds
