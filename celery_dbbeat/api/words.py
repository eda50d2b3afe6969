"""What the history and the audit say, in words."""

from datetime import datetime

from celery_dbbeat.rules.completeness import SENT
from celery_dbbeat.rules.tick import ORDERED
from celery_dbbeat.store.audit import Change
from celery_dbbeat.store.history import HistoryEntry


def outcome(one: HistoryEntry) -> list[str]:
    """What became of a fire time."""
    holder = "without the lease" if one.epoch is None else f"epoch {one.epoch}"
    decided = f"at {shown(one.recorded)} by {one.replica}"
    if one.kind not in ORDERED:
        decided += f" ({holder})"
    if one.state not in SENT:
        return [_range(one, decided)]
    said = [f"Its tick {one.task_id} was recorded {decided}, as {one.kind}."]
    if one.sent is not None and one.lateness is not None:
        said.append(
            f"It was sent at {shown(one.sent)}, {one.lateness.total_seconds():.3f} s after it "
            f"was due, attempt {one.attempt}."
        )
    else:
        yet = " yet" if one.state == "recorded" else ""
        said.append(f"It is not known to be sent{yet}.")
    said.append(_run(one))
    if one.state == "cancelled":
        said.append(f"It was cancelled, to end for a newer one: {one.reason}.")
    if one.state == "dead":
        said.append(f"It is dead: {one.reason or one.error}.")
    return said


def _range(one: HistoryEntry, decided: str) -> str:
    why = f": {one.reason}" if one.reason else ""
    where = ""
    if one.last is not None and one.last != one.nominal:
        where = f", as one of {one.count} from {shown(one.nominal)} to {shown(one.last)}"
    return f"It was not sent, but {one.state}{where}, decided {decided}{why}."


def _run(one: HistoryEntry) -> str:
    if one.started is None:
        return "No worker with the guard has taken it."
    said = f"{one.worker} took it at {shown(one.started)}"
    if one.ended is None or one.duration is None:
        return f"{said}; its run is {one.status}."
    failed = f" ({one.error})" if one.error else ""
    return (
        f"{said}; its run was {one.status}{failed} at {shown(one.ended)}, "
        f"after {one.duration.total_seconds():.3f} s."
    )


def by(change: Change) -> str:
    """What was done to a schedule, by whom and when."""
    verbs = {
        "found": "it was there when the audit began",
        "insert": "it was made",
        "update": "it was changed",
    }
    what = ""
    if change.action == "update" and change.before and change.after:
        what = (
            " ("
            + ", ".join(
                f"{column} from {_short(change.before[column])} to {_short(change.after[column])}"
                for column in sorted(change.after)
            )
            + ")"
        )
    verb = verbs.get(change.action, "it was deleted")
    return f"{verb}{what} by {change.who} ({change.source}) at {shown(change.at)}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"  # noqa: PLR2004 - a readable length


def shown(instant: datetime) -> str:
    """An instant in UTC."""
    shown = instant.isoformat(" ", "milliseconds" if instant.microsecond else "seconds")
    return shown.replace("+00:00", " UTC")
