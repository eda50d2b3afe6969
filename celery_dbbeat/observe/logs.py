"""What a line of the log is about, for programs that read it.

The line itself is for people. The facts go along as attributes of its record, where formatters for
JSON find them: `event`, and of `schedule`, `task_id`, `nominal`, `epoch`, … what there is.
"""

from datetime import datetime
from uuid import UUID


def facts(event: str, **known: object) -> dict[str, object]:
    """For `extra=`: what happened, and to what."""
    return {"event": event, **{name: _plain(value) for name, value in known.items()}}


def _plain(value: object) -> object:
    """In a form that every formatter can show."""
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value
