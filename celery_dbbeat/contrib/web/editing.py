"""Pages that write schedules: new, changed, deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from zoneinfo import available_timezones

from starlette.responses import JSONResponse, Response

from celery_dbbeat.contrib import typed as typing
from celery_dbbeat.contrib.web import forms
from celery_dbbeat.contrib.web.forms import Typed
from celery_dbbeat.contrib.web.site import Ask
from celery_dbbeat.errors import DatabaseUnavailable, DbbeatError, FieldError, NotFound
from celery_dbbeat.store.managing import ScheduleInfo

_OWN = "celery."


def new(ask: Ask) -> Response:
    """The form of a new schedule."""
    return _form(ask, forms.blank())


def create(ask: Ask) -> Response:
    """Make it, or show what is wrong with it."""
    typed = forms.read(ask.form)
    if typed.problems:
        return _form(ask, typed, problems=_all_problems(ask, typed))
    try:
        info = ask.schedules.create(**cast("Any", typed.given))
    except (DatabaseUnavailable, NotFound):
        raise
    except DbbeatError as error:
        return _form(ask, typed, problems=_said(error, _all_problems(ask, typed)))
    return ask.go("/schedule", f"The schedule {info.name!r} was made.", name=info.name)


def edit(ask: Ask) -> Response:
    """The form of a schedule that is there."""
    info = ask.schedules.get(ask.query.get("name", ""))
    return _form(ask, forms.of(info), info)


def update(ask: Ask) -> Response:
    """Change what was touched, unless somebody else changed it since the form was shown."""
    info = ask.schedules.get(ask.form.get("original", ""))
    version = ask.form.get("version", "")
    typed = forms.read(ask.form, forms.of(info))
    if typed.problems:
        return _form(ask, typed, info, _all_problems(ask, typed, info))
    try:
        if not version.isdecimal():
            raise FieldError("version", f"version is {version!r}; allowed is a whole number")
        now = ask.schedules.update(info.name, version=int(version), **cast("Any", typed.given))
    except (DatabaseUnavailable, NotFound):
        raise
    except DbbeatError as error:
        return _form(ask, typed, info, _said(error, _all_problems(ask, typed, info)))
    return ask.go("/schedule", f"The schedule {now.name!r} was changed.", name=now.name)


def check(ask: Ask) -> Response:
    """What a form means while it is typed, for the script beside it."""
    original = ask.form.get("original", "")
    info = ask.schedules.get(original) if original else None
    typed = forms.read(ask.form, None if info is None else forms.of(info))
    return JSONResponse(_look(ask, typed, info))


def confirm(ask: Ask) -> Response:
    """Ask before deleting."""
    return ask.show("delete.html", info=ask.schedules.get(ask.query.get("name", "")))


def delete(ask: Ask) -> Response:
    """Delete one that was confirmed, as it was shown."""
    name, version = ask.form.get("name", ""), ask.form.get("version", "")
    if not version.isdecimal():
        raise FieldError("version", f"version is {version!r}; allowed is a whole number")
    ask.schedules.delete(name, version=int(version))
    return ask.go("/", f"The schedule {name!r} was deleted.")


def _look(ask: Ask, typed: Typed, info: ScheduleInfo | None) -> dict[str, Any]:
    found = typing.look(ask.schedules, typed.given, info)
    found["problems"] = forms.shown_at({**found["problems"], **typed.problems})
    return found


def _all_problems(ask: Ask, typed: Typed, info: ScheduleInfo | None = None) -> dict[str, str]:
    draft = None if info is None else info.draft()
    found = {one.field: str(one) for one in ask.schedules.definitions.problems(typed.given, draft)}
    return forms.shown_at({**found, **typed.problems})


def _said(error: DbbeatError, problems: dict[str, str]) -> dict[str, str]:
    own = forms.problem_of(error) if isinstance(error, FieldError) else {_place(error): str(error)}
    return {**own, **problems}


def _place(error: DbbeatError) -> str:
    return "name" if type(error).__name__ == "NameTaken" else ""


def _form(
    ask: Ask,
    typed: Typed,
    info: ScheduleInfo | None = None,
    problems: Mapping[str, str] | None = None,
) -> Response:
    shown = typed if typed.given else forms.read(typed.texts)
    found = typing.look(ask.schedules, shown.given)
    tasks = sorted(name for name in ask.site.app.tasks if not name.startswith(_OWN))
    return ask.show(
        "form.html",
        400 if problems else 200,
        groups=forms.GROUPS,
        texts=typed.texts,
        problems=dict(problems or {}),
        found=found,
        info=info,
        # Of a form that comes back, the version that was seen by who typed in it.
        version=ask.form.get("version", "" if info is None else str(info.version)),
        tasks=tasks,
        zones=sorted(available_timezones()),
    )
