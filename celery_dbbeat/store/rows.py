"""From rows to values, where more than one table's statements need it."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from celery_dbbeat.rules.schedule import Schedule

UTC = timezone.utc


def utc(instant: datetime | None) -> datetime | None:
    """The same instant in UTC: the driver gives it in the session's time zone."""
    return None if instant is None else instant.astimezone(UTC)


def plain(text: str, length: int = 2000) -> str:
    """What Postgres can store of a text that came from anywhere, at a readable length."""
    return text.encode(errors="replace").decode().replace("\0", "")[:length]


def tick_keys(
    rows: Sequence[Mapping[str, Any]], nominal_at: str = "nominal_at"
) -> dict[str, object]:
    """The keys of ticks as statements take them, and the oldest fire time among them."""
    nominals = [row[nominal_at] for row in rows]
    return {
        "schedule_ids": [row["schedule_id"] for row in rows],
        "nominals": nominals,
        "task_ids": [row["task_id"] for row in rows],
        "first": min(nominals),
    }


def schedule_of(row: dict[str, Any]) -> Schedule:
    """The schedule that a joined row holds."""
    return Schedule(
        id=row["schedule_id"],
        version=row["version"],
        name=row["name"],
        task=row["task"],
        kind=row["kind"],
        expression=row["expression"],
        timezone=row["timezone"],
        args=row["args"],
        kwargs=row["kwargs"],
        options=row["options"],
        misfire_grace=row["misfire_grace"],
        jitter=row["jitter"],
        start_at=utc(row["start_at"]),
        end_at=utc(row["end_at"]),
        max_runs=row["max_runs"],
        overlap=row["overlap"],
        max_concurrent=row["max_concurrent"],
        catch_up=row["catch_up"],
        catch_up_limit=row["catch_up_limit"],
        exclude=row["exclude"],
    )
