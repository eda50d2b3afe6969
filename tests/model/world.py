"""What there is: Postgres, a broker, replicas, worker processes, and the faults still to come.

Values only, so that two ways to the same state are one state. Instants are numbers of fire times:
`now` = 2 means that the first two fire times are due.
"""

from typing import NamedTuple

from celery_dbbeat.rules.schedule import Cursor


class Message(NamedTuple):
    """A message in the broker; `salt` is 0 unless ids are not made from what they stand for."""

    fire: int
    salt: str
    attempt: int


class Row(NamedTuple):
    """A tick, as `dbbeat_tick` has it."""

    fire: int
    salt: str
    state: str
    attempt: int
    owner: str
    losses: int = 0

    @property
    def message(self) -> Message:
        """What is sent for it."""
        return Message(self.fire, self.salt, self.attempt)


class Run(NamedTuple):
    """A run, as `dbbeat_dedup` has it. `seen`: the tick was sent again since its lease ran out."""

    fire: int
    salt: str
    status: str
    attempt: int
    expired: bool = False
    seen: bool = False


class Replica(NamedTuple):
    """A beat process, and what it knows that nobody else does."""

    name: str
    at: str = "idle"
    #: Of a claim: the cursor that was read, and when.
    cursor: Cursor | None = None
    claimed_at: int = 0
    #: To publish and to mark.
    batch: tuple[Message, ...] = ()
    published: tuple[Message, ...] = ()


class Worker(NamedTuple):
    """A worker process; `attempt` is the one under which it has taken the tick."""

    at: str = "idle"
    message: Message | None = None
    attempt: int = 0


class Faults(NamedTuple):
    """How many of each may still happen."""

    beat_dies: int = 0
    worker_dies: int = 0
    worker_freezes: int = 0
    message_doubled: int = 0
    broker_emptied: int = 0
    transaction_ended: int = 0
    #: Somebody takes for lost what is only slow.
    haste: int = 0


class World(NamedTuple):
    """Everything."""

    faults: Faults
    cursor: Cursor
    replicas: tuple[Replica, ...]
    workers: tuple[Worker, ...]
    now: int = 0
    #: Which replica has locked the cursor's row.
    lock: str | None = None
    ticks: tuple[Row, ...] = ()
    not_sent: tuple[int, ...] = ()
    runs: tuple[Run, ...] = ()
    messages: tuple[Message, ...] = ()
    effects: tuple[int, ...] = ()

    def replica(self, after: Replica) -> "World":
        """The same with this replica changed."""
        changed = tuple(after if one.name == after.name else one for one in self.replicas)
        return self._replace(replicas=changed)

    def worker(self, before: Worker, after: Worker) -> "World":
        """The same with a worker process changed. They have no names: any is as good as another."""
        others = list(self.workers)
        others.remove(before)
        return self._replace(workers=tuple(sorted([*others, after], key=repr)))

    def tick(self, after: Row) -> "World":
        """The same with this tick changed."""
        key = (after.fire, after.salt)
        return self._replace(
            ticks=tuple(after if (row.fire, row.salt) == key else row for row in self.ticks)
        )

    def run(self, after: Run) -> "World":
        """The same with this run, instead of the one before it if there was one."""
        others = [run for run in self.runs if (run.fire, run.salt) != (after.fire, after.salt)]
        return self._replace(runs=tuple(sorted([*others, after])))

    def send(self, message: Message) -> "World":
        """The same with this message in the broker."""
        return self._replace(messages=tuple(sorted([*self.messages, message])))

    def take(self, message: Message) -> "World":
        """The same without this message in the broker."""
        left = list(self.messages)
        left.remove(message)
        return self._replace(messages=tuple(left))

    def spend(self, fault: str) -> "World | None":
        """The same with one such fault fewer to come; None where there is none left."""
        left = getattr(self.faults, fault)
        if not left:
            return None
        return self._replace(faults=self.faults._replace(**{fault: left - 1}))

    def tick_of(self, message: Message) -> Row | None:
        """The tick that this message is for."""
        found = (row for row in self.ticks if row[:2] == message[:2])
        return next(found, None)

    def run_of(self, message: Message) -> Run | None:
        """The run of the tick that this message is for."""
        found = (run for run in self.runs if run[:2] == message[:2])
        return next(found, None)
