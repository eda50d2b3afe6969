"""The application's own table, in the same database: one row an effect.

A message may be delivered more than once, and a worker may die at any line. `once` commits what a
task writes together with the word that its tick is done, so the effect is there once, or not yet.
Nothing in the table itself helps: no column of it is unique.
"""

import functools
import os
from uuid import UUID

from celery import Task
from celery.signals import worker_init, worker_process_init
from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Engine,
    Identity,
    MetaData,
    Table,
    Text,
    Uuid,
    create_engine,
    func,
)

from celery_dbbeat import embedded, once
from example_project.app import app

metadata = MetaData()
effect = Table(
    "example_effect",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("task_id", Uuid, nullable=False),
    Column("schedule", Text),
    Column("nominal_at", DateTime(timezone=True)),
    Column("what", Text, nullable=False),
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
    """Have the effect exactly once, and write down for which fire time it was."""
    with engine().connect() as connection, once(connection) as tick:
        connection.execute(
            effect.insert().values(
                task_id=UUID(task.request.id),
                schedule=tick and tick.schedule,  # none when someone called the task by hand
                nominal_at=tick and tick.nominal,
                what=what,
            )
        )
