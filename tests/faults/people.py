"""People who do at random whatever may be done to schedules, and workers that run what is sent."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone

from celery_dbbeat import Schedules
from celery_dbbeat.errors import DbbeatError
from celery_dbbeat.store import runs
from celery_dbbeat.store.database import Database
from celery_dbbeat.store.runs import Ending, Run
from tests.faults.cluster import Cluster
from tests.faults.inbox import Received

POLICIES = ("allow", "skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other")
CATCH_UPS = ("latest", "all", "none")
ATTEMPT = "SELECT coalesce(max(attempt), 1) FROM dbbeat_tick WHERE task_id = %(id)s"

LEASE = timedelta(seconds=60)


class Workers:
    """Take each message as the guard does, and end its run after a while."""

    def __init__(self, cluster: Cluster, database: Database, chance: random.Random) -> None:
        self._cluster, self._database, self._chance = cluster, database, chance
        self._seen = 0
        self._at_work: list[tuple[float, Run]] = []

    def step(self) -> None:
        """Begin with what has arrived, and end what is over."""
        arrived = self._cluster.inbox.received[self._seen :]
        self._seen += len(arrived)
        for message in arrived:
            self._begin(message)
        now = time.monotonic()
        for ends_at, run in self._at_work:
            if ends_at <= now:
                status = "failed" if self._chance.random() < 0.05 else "done"
                runs.finish(self._database, run, Ending(status, "X", "why"))
        self._at_work = [one for one in self._at_work if one[0] > now]

    def _begin(self, message: Received) -> None:
        attempt = self._cluster.tables.value(ATTEMPT, id=message.task_id)
        wanted = Run(message.task_id, message.nominal_at, message.schedule, attempt, 0, "w")
        run = runs.take(self._database, wanted, LEASE)
        if run is not None:
            self._at_work.append((time.monotonic() + self._chance.choice([0, 0.1, 1.2]), run))


@contextmanager
def workers(cluster: Cluster, url: str, seed: int) -> Iterator[None]:
    """Let workers run, in a thread of their own."""
    stopping = threading.Event()

    def work() -> None:
        with Database(url, None, 5.0) as database:
            all_of_them = Workers(cluster, database, random.Random(seed))  # noqa: S311 - no secret
            while not stopping.wait(0.02):
                all_of_them.step()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(10)


class People:
    """One of them, who remembers what was done."""

    def __init__(self, schedules: Schedules, chance: random.Random) -> None:
        self._schedules, self._chance = schedules, chance
        self.done: list[str] = []
        self._ways = (self.edit, self.spread, self.rename, self.pause, self.resume, self.resume,
                      self.backfill, self.trigger, self.change_overlap, self.replay)  # fmt: skip

    def act(self) -> None:
        """Do one thing; what cannot be is refused with words."""
        name = self._chance.choice([one.name for one in self._schedules.list()])
        way = self.delete if self._chance.random() < 0.02 else self._chance.choice(self._ways)
        self.done.append(f"{datetime.now(timezone.utc):%X} {way.__name__} {name}")
        try:
            way(name)
        except DbbeatError as error:
            self.done.append(f"refused: {error}")

    def edit(self, name: str) -> None:
        self._schedules.update(name, interval=self._chance.choice([1, 2, 3, 5]))

    def spread(self, name: str) -> None:
        self._schedules.update(name, jitter=self._chance.choice([0, 0.5, 2]))

    def rename(self, name: str) -> None:
        self._schedules.update(name, name=f"{name[:9]}~{self._chance.randrange(9999)}")

    def pause(self, name: str) -> None:
        self._schedules.pause(name, note="for a while")

    def resume(self, name: str) -> None:
        self._schedules.resume(name, catch_up=self._chance.random() < 0.5)

    def backfill(self, name: str) -> None:
        now = datetime.now(timezone.utc)
        self._schedules.backfill(
            name,
            now - timedelta(seconds=self._chance.choice([20, 200])),
            now - timedelta(seconds=self._chance.choice([0, 10])),
            reprocess=self._chance.choice(["none", "failed", "all"]),
            max_concurrent=self._chance.choice([1, 5, 20]),
            overlap=self._chance.choice(["allow", "allow", "buffer_all"]),
        )

    def trigger(self, name: str) -> None:
        self._schedules.trigger(name)

    def change_overlap(self, name: str) -> None:
        self._schedules.update(name, overlap=self._chance.choice(POLICIES))

    def replay(self, _: str) -> None:
        for one in self._schedules.dead()[:3]:
            self._schedules.replay(one.task_id)

    def delete(self, name: str) -> None:
        self._schedules.delete(name)


def make_schedules(schedules: Schedules, chance: random.Random) -> None:
    """Each policy with each other, and some of other kinds."""
    task = "tests.faults.app.note"
    now = datetime.now(timezone.utc)
    for overlap in POLICIES:
        for catch_up in CATCH_UPS:
            schedules.create(
                f"{overlap}-{catch_up}",
                task,
                interval=5,
                overlap=overlap,
                catch_up=catch_up,
                misfire_grace=chance.choice([None, 30, 3600]),
                max_concurrent=chance.choice([1, 2]),
                jitter=chance.choice([0, 0, 2]),
                max_runs=chance.choice([None, None, 60]),
                on_failure="dead",
            )
    schedules.create("spread", task, cron="* * * * * H/7", catch_up="all", overlap="buffer_all")
    schedules.create(
        "counted",
        task,
        rrule="FREQ=MINUTELY;COUNT=5",
        start_at=now - timedelta(minutes=3),
        catch_up="all",
        misfire_grace=None,
    )
    schedules.create("once", task, once=now + timedelta(seconds=6), overlap="skip")
