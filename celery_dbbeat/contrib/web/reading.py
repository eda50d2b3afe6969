"""Pages that show how it all stands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from celery_dbbeat.contrib.picture import picture
from celery_dbbeat.contrib.web.site import Ask
from celery_dbbeat.contrib.web.words import read_label
from celery_dbbeat.errors import FieldError, NotFound, ScheduleError

_PAGE = 50
_ENTRIES = 100
STATES = ("active", "paused", "finished", "invalid")
_CONDITIONS = ("text", "state", "task", "queue", "label", "owner")


def schedules(ask: Ask) -> Response:
    """All schedules, page by page, by conditions."""
    asked = {name: ask.query.get(name, "").strip() for name in _CONDITIONS}
    problem, found = "", []
    try:
        found = ask.schedules.list(
            text=asked["text"] or None,
            state=asked["state"] or None,
            task=asked["task"] or None,
            queue=asked["queue"] or None,
            owner=asked["owner"] or None,
            labels=_label(asked["label"]),
            after=ask.query.get("after") or None,
            limit=_PAGE + 1,
        )
    except ScheduleError as error:
        problem = str(error)
    following = found[_PAGE - 1].name if len(found) > _PAGE else None
    return ask.show(
        "list.html",
        400 if problem else 200,
        found=found[:_PAGE],
        asked=asked,
        states=STATES,
        problem=problem,
        following=following,
        first=not ask.query.get("after"),
    )


def schedule(ask: Ask) -> Response:
    """One schedule: what it is, when it fires, what became of that."""
    name = ask.query.get("name", "")
    info = ask.schedules.get(name)
    entries = ask.schedules.history(name, limit=_ENTRIES)
    try:
        coming = ask.schedules.preview(info, 5) if info.state == "active" else []
    except ScheduleError:  # its reason is on it, or will be as soon as beat has come to it
        coming = []
    at, explanation, problem = ask.query.get("at", "").strip(), None, ""
    if at:
        try:
            explanation = ask.schedules.explain(name, at)
        except ScheduleError as error:
            problem = str(error)
    return ask.show(
        "schedule.html",
        info=info,
        entries=entries,
        # Escaped where it is drawn.
        picture=Markup(picture(entries)),  # noqa: S704
        coming=coming,
        asked=at,
        explanation=explanation,
        problem=problem,
        backfills=ask.schedules.backfills(name, limit=5),
    )


def dead(ask: Ask) -> Response:
    """Dead letters, of one schedule or of all."""
    name = ask.query.get("name") or None
    letters = ask.schedules.dead(schedule=name, limit=_ENTRIES)
    return ask.show("dead.html", letters=letters, name=name, most=_ENTRIES)


def changes(ask: Ask) -> Response:
    """Who changed a schedule."""
    name = ask.query.get("name", "").strip()
    found, problem = [], ""
    if name:
        try:
            found = ask.schedules.changes(name, limit=_ENTRIES)
        except NotFound as error:
            problem = str(error)
    status = 404 if problem else 200
    return ask.show("changes.html", status, name=name, found=found, problem=problem)


def replicas(ask: Ask) -> Response:
    """Who dispatches, and how much there is to do."""
    return ask.show("replicas.html", found=ask.schedules.status())


def _label(text: str) -> Mapping[str, Any] | None:
    """`team=billing`, `shop=7`, or the JSON that the labels have to hold."""
    if not text:
        return None
    if text.startswith("{"):
        try:
            found = json.loads(text)
        except ValueError as error:
            raise FieldError("label", f"label is {text!r}; allowed is JSON: {error}") from None
        return dict(found)
    key, sign, value = text.partition("=")
    if not sign:
        raise FieldError("label", f"label is {text!r}; allowed is a label such as team=billing")
    return {key.strip(): read_label(value.strip())}
