"""Pages beside Django's own: a preview while one types, and what became of a schedule."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.dateparse import parse_datetime
from django.utils.safestring import mark_safe

from celery_dbbeat.api import Schedules
from celery_dbbeat.contrib.django.forms import WHEN
from celery_dbbeat.contrib.picture import picture, seconds_shown
from celery_dbbeat.errors import DbbeatError
from celery_dbbeat.rules.describe import describe
from celery_dbbeat.rules.preview import preview
from celery_dbbeat.rules.schedule import Schedule

if TYPE_CHECKING:
    from celery_dbbeat.contrib.django.admin import ScheduleAdmin

_NOBODY = UUID(int=0)
_PREVIEWED, _ENTRIES, _PICTURED, _CHANGES = 10, 50, 200, 10


class Preview:
    """What the form says of *when*, in words and as the next fire times."""

    def __init__(self, admin: ScheduleAdmin) -> None:
        """Answer for these pages."""
        self._admin = admin

    def __call__(self, request: HttpRequest, identity: UUID | None = None) -> HttpResponse:
        """Read the form that is being filled in; nothing is written."""
        if not (
            self._admin.has_add_permission(request) or self._admin.has_change_permission(request)
        ):
            raise PermissionDenied
        if request.method != "POST":
            return JsonResponse({"detail": "allowed is POST"}, status=405)
        form = self._admin.get_form(request)(request.POST)
        form.is_valid()
        problems = {name: list(form.errors[name]) for name in WHEN if name in form.errors}
        given = {name: form.cleaned_data.get(name) for name in WHEN}
        if problems:
            return JsonResponse({"problems": problems})
        try:
            return JsonResponse(_shown(form.api, given, identity or _NOBODY))
        except DbbeatError as error:
            return JsonResponse({"problems": {"expression": [str(error)]}})


def _shown(api: Schedules, given: dict[str, Any], identity: UUID) -> dict[str, Any]:
    draft = api.definitions.draft({"name": "preview", "task": "preview", **given})
    schedule: Schedule = draft.as_schedule(identity)
    times = preview(schedule, _PREVIEWED, api.now())
    return {
        "description": describe(schedule),
        "times": [
            {
                "local": f"{one.local:%a %Y-%m-%d %H:%M:%S %Z}",
                "utc": f"{one.nominal_at:%Y-%m-%d %H:%M:%S} UTC",
                "dst": one.dst,
            }
            for one in times
        ],
    }


class Runs:
    """What became of a schedule's fire times: a picture, a table, an answer; and who changed it."""

    def __init__(self, admin: ScheduleAdmin) -> None:
        """Answer for these pages."""
        self._admin = admin

    def __call__(self, request: HttpRequest, identity: UUID) -> HttpResponse:
        """Show it."""
        one = self._admin.get_object(request, str(identity))
        if one is None:
            raise Http404
        if not self._admin.has_view_permission(request, one):
            raise PermissionDenied
        api = self._admin.api(request)
        entries = api.history(one.name, _PICTURED, _before(request))
        shown = entries[:_ENTRIES]
        context = {
            **self._admin.admin_site.each_context(request),
            "title": "What became of its fire times",
            "subtitle": one.name,
            "opts": self._admin.opts,
            "schedule": one,
            "info": api.get(one.name),
            "description": _described(api, one.name),
            # Escaped where it is drawn.
            "picture": mark_safe(picture(entries)),  # noqa: S308
            "entries": [(one, _span(one.lateness), _span(one.duration)) for one in shown],
            "older": shown[-1].nominal.isoformat() if len(entries) > _ENTRIES else None,
            "changes": api.changes(one.name, _CHANGES),
            "media": self._admin.media,
            "dbbeat_orders": self._admin.orders_for(request),
            **_explained(api, one.name, request.GET.get("at", "").strip()),
        }
        return TemplateResponse(request, "admin/dbbeat/schedule/runs.html", context)


def _span(length: timedelta | None) -> str:
    return "" if length is None else seconds_shown(length.total_seconds())


def _before(request: HttpRequest) -> datetime | None:
    try:
        found = parse_datetime(request.GET.get("before", ""))
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


def _described(api: Schedules, name: str) -> str:
    info = api.get(name)
    try:
        return describe(info.draft().as_schedule(info.id))
    except DbbeatError as error:
        return str(error)


def _explained(api: Schedules, name: str, at: str) -> dict[str, Any]:
    if not at:
        return {"at": ""}
    try:
        return {"at": at, "explanation": api.explain(name, at)}
    except DbbeatError as error:
        return {"at": at, "explain_problem": str(error)}


def back(admin: Any, request: HttpRequest) -> HttpResponseRedirect:
    """To the page of the one schedule it was asked on, or to the list."""
    chosen = request.POST.getlist("_selected_action")
    place = request.POST.get("_from")
    if place in {"change", "runs"} and len(chosen) == 1:
        return HttpResponseRedirect(
            reverse(
                f"admin:dbbeat_schedule_{place}", args=chosen, current_app=admin.admin_site.name
            )
        )
    return HttpResponseRedirect(request.get_full_path())
