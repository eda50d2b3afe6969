"""Ticks to publish."""

import json
from datetime import datetime, timezone
from uuid import uuid4

from celery_dbbeat.rules.schedule import Schedule
from celery_dbbeat.rules.tick import Tick, task_id
from celery_dbbeat.store.cursors import Outgoing

NOMINAL = datetime(2026, 3, 1, 12, 0, tzinfo=timezone.utc)


def outgoing(
    task: str = "tests.plain",
    *,
    args: object = (),
    kwargs: object = None,
    options: object = None,
    name: str = "every minute",
) -> Outgoing:
    """One tick of a schedule of its own."""
    schedule = Schedule(
        id=uuid4(),
        version=1,
        name=name,
        task=task,
        kind="interval",
        expression="60",
        args=json.dumps(args),
        kwargs=json.dumps(kwargs or {}),
        options=json.dumps(options or {}),
    )
    return Outgoing(schedule, Tick(task_id(schedule.id, NOMINAL), NOMINAL, NOMINAL))


def numbered(count: int, **values: object) -> list[Outgoing]:
    """Ticks whose only argument tells their place."""
    return [outgoing(args=[place], **values) for place in range(count)]  # type: ignore[arg-type]


def ids(ticks: object) -> list[str]:
    """Their task ids."""
    assert isinstance(ticks, list | dict)
    return [str(one.tick.task_id) for one in ticks]
