"""Pages that order something: a tick now, a pause, a backfill, dead ticks once more."""

from __future__ import annotations

import json
from typing import Any, cast

from starlette.responses import Response

from celery_dbbeat.contrib.web.site import Ask
from celery_dbbeat.errors import FieldError, NotFound, ScheduleError

_BLANK = {
    "start": "",
    "end": "",
    "reprocess": "none",
    "rate": "",
    "max_concurrent": "1",
    "note": "",
}


def trigger(ask: Ask) -> Response:
    """Run now; with other arguments where some are given."""
    name = ask.form.get("name", "")
    given = (_json(ask, "args"), _json(ask, "kwargs"))
    task_id = ask.schedules.trigger(name, *given)
    return ask.go("/schedule", f"Beat sends it now, as {task_id}.", name=name)


def pause(ask: Ask) -> Response:
    """Pause, with a note for the others."""
    name = ask.form.get("name", "")
    ask.schedules.pause(name, ask.form.get("note", "").strip() or None)
    return ask.go("/schedule", "It is paused. What runs goes on.", name=name)


def resume(ask: Ask) -> Response:
    """Resume, with a backfill of the pause where that is wanted."""
    name = ask.form.get("name", "")
    ordered = ask.schedules.resume(name, catch_up="catch_up" in ask.form)
    also = "" if ordered is None else f" Backfill {ordered.id} catches up on the pause."
    return ask.go("/schedule", f"It goes on at its next fire time.{also}", name=name)


def plan(ask: Ask) -> Response:
    """What a backfill would do, before it is ordered."""
    name = ask.query.get("name", "")
    asked = {key: value.strip() for key, value in ask.query.items()}
    info = ask.schedules.get(name)
    return _plan(ask, info.name, asked)


def backfill(ask: Ask) -> Response:
    """Order what was shown."""
    name = ask.form.get("name", "")
    asked = {key: value.strip() for key, value in ask.form.items()}
    try:
        ordered = ask.schedules.backfill(
            name,
            asked.get("start", ""),
            asked.get("end", ""),
            **_how(asked),
            note=asked.get("note") or None,
            force="force" in asked,
        )
    except FieldError as error:
        return _plan(ask, name, asked, {error.field: str(error)})
    return ask.go("/backfills", f"Backfill {ordered.id} is ordered.", name=name)


def backfills(ask: Ask) -> Response:
    """Backfills and how far they have come."""
    name = ask.query.get("name") or None
    return ask.show("backfills.html", found=ask.schedules.backfills(name), name=name)


def stop(ask: Ask) -> Response:
    """Have a backfill send nothing more."""
    found = ask.schedules.stop_backfill(_number(ask))
    return ask.go("/backfills", f"Backfill {found.id} is stopped.")


def go_on(ask: Ask) -> Response:
    """Let a stopped backfill go on."""
    found = ask.schedules.continue_backfill(_number(ask))
    return ask.go("/backfills", f"Backfill {found.id} goes on.")


def replay(ask: Ask) -> Response:
    """Have dead ticks run again: those that are ticked, or all."""
    name = ask.form.get("name") or None
    if "all" in ask.form:
        count = ask.schedules.replay_all(schedule=name)
    else:
        ids = ask.form.getlist("task_id")
        ask.schedules.replay(*ids)
        count = len(ids)
    return ask.go("/dead", f"{count} sent again, under their own ids.", name=name)


def _plan(
    ask: Ask, name: str, asked: dict[str, str], problems: dict[str, str] | None = None
) -> Response:
    asked = {**_BLANK, **asked}
    problems, planned = dict(problems or {}), None
    if asked["start"] and asked["end"]:
        try:
            how = _how(asked)
            planned = ask.schedules.backfill(
                name, asked["start"], asked["end"], dry_run=True, reprocess=how["reprocess"]
            )
        except FieldError as error:
            problems.setdefault(error.field, str(error))
        except ScheduleError as error:
            problems.setdefault("start", str(error))
    return ask.show(
        "backfill.html",
        400 if problems else 200,
        name=name,
        asked=asked,
        problems=problems,
        planned=planned,
    )


def _how(asked: dict[str, str]) -> dict[str, Any]:
    how: dict[str, Any] = {"reprocess": cast("Any", asked.get("reprocess", "none"))}
    for field, read, allowed in (
        ("rate", float, "a number a second, or empty"),
        ("max_concurrent", int, "a whole number"),
    ):
        text = asked.get(field, "")
        try:
            if text:
                how[field] = read(text)
        except ValueError:
            raise FieldError(field, f"{field} is {text!r}; allowed is {allowed}") from None
    return how


def _json(ask: Ask, field: str) -> Any:  # noqa: ANN401 - whatever JSON holds
    text = ask.form.get(field, "").strip()
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError) as error:
        raise FieldError(field, f"{field} is {text[:100]!r}; allowed is JSON: {error}") from None


def _number(ask: Ask) -> int:
    text = ask.form.get("id", "")
    if not text.isdecimal() or len(text) > 18:  # noqa: PLR2004 - what a bigint holds
        raise NotFound(f"there is no backfill {text!r}")
    return int(text)
