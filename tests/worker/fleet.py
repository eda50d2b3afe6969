"""Real workers, with beats or without, and a table of effects that no constraint helps."""

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import UUID

from kombu import Connection

from celery_dbbeat.rules.tick import task_id
from tests.faults.cluster import Cluster
from tests.support.processes import Process
from tests.support.waiting import wait_until

EFFECTS = """
    CREATE TABLE IF NOT EXISTS effect (
        id bigserial, task_id uuid, worker text, attempt int, at timestamptz DEFAULT now())
"""
ADD = """
    INSERT INTO dbbeat_schedule (name, task, kind, expression, kwargs, max_attempts, on_failure)
    VALUES (%(name)s, %(task)s, 'interval', %(every)s, %(kwargs)s, %(attempts)s, %(on_failure)s)
    RETURNING id
"""
FIRST_OF_ALL = datetime(2026, 1, 1, tzinfo=timezone.utc)


class Fleet(Cluster):
    """A cluster with workers; the app is that of these tests."""

    def __init__(self, folder: Path, database_url: str, broker_url: str, **settings: str) -> None:
        super().__init__(folder, database_url, broker_url)
        self.app = "tests.worker.app"
        self.environment |= {
            "DBBEAT_RUN_LEASE": "2",
            "DBBEAT_RESEND_AFTER": "2",
            "DBBEAT_DATABASE_TIMEOUT": "3",
            **settings,
        }
        self.broker_url = broker_url
        self.workers: list[Process] = []
        self.tables.rows(EFFECTS)
        self._sent = 0

    def start_worker(self, *arguments: str, pool: str = "solo", **settings: str) -> Process:
        """Start one worker and wait until it is ready."""
        name = f"w{len(self.workers) + 1}@test"
        worker = self.run(
            "worker", "-P", pool, "-n", name, "-l", "INFO", "--without-mingle",
            "--without-gossip", *arguments, **settings,
        )  # fmt: skip
        self.workers.append(worker)
        worker.wait_for(" ready.", 30)
        return worker

    def kill_worker(self, worker: Process) -> None:
        worker.kill9()
        self.workers.remove(worker)

    def send(
        self,
        task: str,
        *,
        copies: int = 1,
        attempt: int = 1,
        number: int | None = None,
        **kwargs: object,
    ) -> UUID:
        """Publish the message of a tick, as beat would, so many times; returns its id."""
        self._sent += number is None
        nominal = FIRST_OF_ALL + timedelta(seconds=self._sent if number is None else number)
        identity = task_id(UUID(int=1), nominal)
        headers = {
            "lang": "py", "task": task, "id": str(identity), "root_id": str(identity),
            "parent_id": None, "retries": 0, "argsrepr": "()", "kwargsrepr": "{}",
            "dbbeat": {
                "schedule": "sent by hand", "nominal": nominal.isoformat(),
                "kind": "scheduled", "attempt": attempt,
            },
        }  # fmt: skip
        body = json.dumps([[], kwargs, {"callbacks": None, "errbacks": None, "chain": None}])
        with Connection(self.broker_url) as connection:
            producer = connection.Producer()
            queue = connection.SimpleQueue("celery")
            for _ in range(copies):
                producer.publish(
                    body, routing_key="celery", headers=headers, correlation_id=str(identity),
                    content_type="application/json", content_encoding="utf-8",
                )  # fmt: skip
            queue.close()
        return identity

    def add(
        self, name: str, task: str, *, every: str = "86400", attempts: int | None = None,
        on_failure: str = "dead", **kwargs: object,
    ) -> UUID:  # fmt: skip
        """Insert a schedule; without `every` it does not come due by itself."""
        row = self.tables.rows(
            ADD, name=name, task=task, every=every, kwargs=json.dumps(kwargs), attempts=attempts,
            on_failure=on_failure,
        )[0]  # fmt: skip
        identity: UUID = row["id"]
        return identity

    def effects(self, identity: UUID | None = None) -> int:
        """How many effects there are, of one tick or of all."""
        where = "" if identity is None else " WHERE task_id = %(id)s"
        return int(self.tables.value(f"SELECT count(*) FROM effect{where}", id=identity))  # noqa: S608 - no input

    def run_of(self, identity: UUID) -> dict[str, Any] | None:
        """The row of a tick in the dedup table."""
        rows = self.tables.rows("SELECT * FROM dbbeat_dedup WHERE task_id = %(id)s", id=identity)
        return rows[0] if rows else None

    def wait_for_status(self, identity: UUID, status: str, timeout: float = 20) -> dict[str, Any]:
        """Wait until the run of a tick has this status; returns it."""

        def reached() -> dict[str, Any]:
            run = self.run_of(identity)
            return run if run and run["status"] == status else {}

        def found() -> str:
            return f"{status}: {self.run_of(identity)}\n{self.worker_logs()}"

        return wait_until(reached, timeout, found)

    def wait_until_consumed(self, timeout: float = 20) -> None:
        """Wait until no message waits in the queue."""
        wait_until(
            lambda: self.depth() == 0, timeout, lambda: f"an empty queue\n{self.worker_logs()}"
        )

    def depth(self) -> int:
        """How many messages wait in the queue."""
        with Connection(self.broker_url) as connection:
            try:
                return int(connection.default_channel.queue_declare("celery", passive=True)[1])
            except connection.channel_errors:
                return 0  # Redis has no empty lists

    def worker_logs(self) -> str:
        return "\n".join(f"--- {one}\n{one.tail()}" for one in (*self.workers, *self.beats))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self.workers:
            worker.kill9()
        super().__exit__(kind, error, trace)
