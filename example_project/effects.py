"""The application's own table, in the same database: one row an effect.

A message may be delivered more than once: a beat that dies between sending it and writing that down
makes another one send it again, and brokers do the same to workers. But a fire time has one task
id however often it is sent, so a unique key on that id is all it takes to have the effect once.
"""

import functools
import os
from datetime import datetime
from uuid import UUID

from celery import Task
from celery.signals import worker_init, worker_process_init
from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Engine,
    Identity,
    Integer,
    MetaData,
    Table,
    Text,
    Uuid,
    create_engine,
    func,
)
from sqlalchemy.dialects.postgresql import insert

from celery_dbbeat import embedded
from example_project.app import app

metadata = MetaData()
effect = Table(
    "example_effect",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("task_id", Uuid, nullable=False, unique=True),
    Column("schedule", Text),
    Column("nominal_at", DateTime(timezone=True)),
    Column("what", Text, nullable=False),
    Column("deliveries", Integer, nullable=False, server_default="1"),
    Column("done_at", DateTime(timezone=True), server_default=func.clock_timestamp()),
)


@functools.cache
def engine() -> Engine:
    """Connections to the database that the schedules are in."""
    url = os.environ.get("DBBEAT_URL") or app.conf.dbbeat_url
    return create_engine(embedded.start(url) if embedded.is_embedded(url) else url)


@worker_init.connect  # type: ignore[untyped-decorator]
def _make_table(**_: object) -> None:
    metadata.create_all(engine())


@worker_process_init.connect  # type: ignore[untyped-decorator]
def _own_connections(**_: object) -> None:
    engine().dispose(close=False)  # those of the parent are not for its children
    engine.cache_clear()


def record(task: Task, what: str) -> None:
    """Have the effect, unless it has been had, and write down for which fire time it was."""
    tick = (task.request.headers or {}).get("dbbeat") or {}
    nominal = tick.get("nominal")
    row = {
        "task_id": UUID(task.request.id),
        "schedule": tick.get("schedule"),  # none when someone called the task by hand
        "nominal_at": datetime.fromisoformat(nominal.replace("Z", "+00:00")) if nominal else None,
        "what": what,
    }
    again = {"deliveries": effect.c.deliveries + 1}
    statement = (
        insert(effect).values(row).on_conflict_do_update(index_elements=["task_id"], set_=again)
    )
    with engine().begin() as connection:
        connection.execute(statement)
