"""A worker's way with one message, in this process: Celery's tracer with the guard around it."""

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID, uuid4

import psycopg
from celery import Celery
from celery.app.trace import build_tracer
from psycopg.rows import dict_row

from celery_dbbeat.settings import Settings
from celery_dbbeat.worker.guard import Guard
from tests.support.postgres import psycopg_url

NOMINAL = datetime(2026, 3, 1, 8, tzinfo=timezone.utc)


class Desk:
    """Delivers messages of ticks to a function, and looks at what came of it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.app = Celery("desk", set_as_current=False)
        self.app.conf.task_ignore_result = True
        self.settings = Settings(url, run_lease=30.0, database_timeout=2.0)
        self.guard = Guard(self.settings)
        self.look = psycopg.connect(psycopg_url(url), autocommit=True, row_factory=dict_row)
        self.look.execute("CREATE TABLE IF NOT EXISTS effect (what text)")

    def deliver(
        self, body: Callable[[], Any], task_id: UUID | None = None, *, attempt: int = 1,
        retries: int = 0, guard: Guard | None = None, header: dict[str, object] | None = None,
    ) -> tuple[str, Any]:  # fmt: skip
        """Run one message; returns Celery's state and what it holds."""

        def run() -> object:  # Celery takes no lambdas
            return body()

        task = self.app.task(run, name=f"desk-{uuid4()}")
        identity = str(task_id or uuid4())
        trace = (guard or self.guard).around(build_tracer(task.name, task, app=self.app))
        request = {
            "id": identity, "hostname": "desk@test", "retries": retries, "is_eager": False,
            "delivery_info": {},
            "dbbeat": {
                "schedule": "nightly", "nominal": NOMINAL.isoformat(), "kind": "scheduled",
                "attempt": attempt, **(header or {}),
            },
        }  # fmt: skip
        returned, info, _, _ = trace(identity, (), {}, request)
        return ("SUCCESS", returned) if info is None else (info.state, info.retval)

    def run_of(self, task_id: UUID) -> dict[str, Any]:
        statement = "SELECT * FROM dbbeat_dedup WHERE task_id = %s"
        run = self.look.execute(statement, (task_id,)).fetchone()
        assert run is not None, f"{task_id} was never taken"
        return run

    def effects(self) -> list[str]:
        return [row["what"] for row in self.look.execute("SELECT what FROM effect").fetchall()]

    def lose(self, task_id: UUID) -> None:
        """Let another worker take the tick over, as after a lease that ran out."""
        self.look.execute(
            "UPDATE dbbeat_dedup SET attempt = attempt + 1, worker = 'another',"
            " lease_until = now() + %s, earlier = jsonb_build_array(jsonb_build_object("
            "'attempt', attempt, 'retries', retries, 'status', 'lost')) WHERE task_id = %s",
            (timedelta(minutes=1), task_id),
        )

    def close(self) -> None:
        self.look.close()
        self.guard.close()
