"""What people order of schedules from the admin: run now, pause, resume, backfill.

Each is an action of Django's admin: a POST with its token, shown to those who have the permission.
What needs to be told more asks on a page of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import ngettext

from celery_dbbeat.api import Schedules
from celery_dbbeat.api.orders import OVERLAPS, REPROCESS
from celery_dbbeat.contrib.django import views
from celery_dbbeat.errors import DbbeatError, FieldError

#: Each is an order of its own, so that so many are seen to within one request.
MOST = 1000


class PauseForm(forms.Form):
    """Why."""

    note = forms.CharField(
        required=False,
        widget=forms.Textarea({"rows": 3, "class": "vLargeTextField"}),
        help_text="Why, for those who find it paused.",
    )


class BackfillForm(forms.Form):
    """From when to when, and how."""

    start = forms.CharField(help_text="2026-05-01, or 2026-05-01T06:00 by the schedule's clock.")
    end = forms.CharField(help_text="Included; a day alone is the whole of it.")
    reprocess = forms.ChoiceField(
        choices=[(word, word) for word in REPROCESS],
        help_text="none: what never ran; failed: what failed, too; all: what is done, too.",
    )
    max_concurrent = forms.IntegerField(initial=1, help_text="So many at once.")
    rate = forms.FloatField(required=False, help_text="So many a second at the most.")
    overlap = forms.ChoiceField(
        choices=[(word, word) for word in OVERLAPS],
        help_text="allow: beside its own runs; buffer_all: waits while one of these is under way.",
    )
    note = forms.CharField(required=False, help_text="Why.")


class Ordering:
    """The actions of the schedules' pages."""

    actions = ("run_now", "pause", "resume", "catch_up", "backfill")

    api: Callable[[HttpRequest], Schedules]

    def has_run_permission(self, request: HttpRequest) -> bool:
        """Whether this user may have schedules run."""
        return bool(request.user.has_perm("dbbeat.run_schedule"))

    def has_pause_permission(self, request: HttpRequest) -> bool:
        """Whether this user may pause and resume schedules."""
        return bool(request.user.has_perm("dbbeat.pause_schedule"))

    def has_backfill_permission(self, request: HttpRequest) -> bool:
        """Whether this user may backfill schedules."""
        return bool(request.user.has_perm("dbbeat.backfill_schedule"))

    def has_catch_up_permission(self, request: HttpRequest) -> bool:
        """Whether this user may do both at once."""
        return self.has_pause_permission(request) and self.has_backfill_permission(request)

    def orders_for(self, request: HttpRequest) -> list[tuple[str, str]]:
        """What this user may order, and what it is called."""
        found = self.get_actions(request)  # type: ignore[attr-defined]  # of the class beside this
        return [(name, found[name][2] % {}) for name in Ordering.actions if name in found]

    @admin.action(description="Run now", permissions=["run"])
    def run_now(self, request: HttpRequest, queryset: Any) -> HttpResponse:
        """Have the task sent once, at once."""
        api = self.api(request)
        return self._each(request, queryset, api.trigger, "sent")

    @admin.action(description="Pause…", permissions=["pause"])
    def pause(self, request: HttpRequest, queryset: Any) -> HttpResponse:
        """Ask why, and pause."""
        form = PauseForm(request.POST if "apply" in request.POST else None)
        if not form.is_valid():
            return self._ask(request, queryset, form, "pause", "Pause")
        api, note = self.api(request), form.cleaned_data["note"] or None
        return self._each(request, queryset, lambda name: api.pause(name, note), "paused")

    @admin.action(description="Resume", permissions=["pause"])
    def resume(self, request: HttpRequest, queryset: Any) -> HttpResponse:
        """Let them go on at their next fire time."""
        api = self.api(request)
        return self._each(request, queryset, api.resume, "resumed")

    @admin.action(description="Resume and catch up", permissions=["catch_up"])
    def catch_up(self, request: HttpRequest, queryset: Any) -> HttpResponse:
        """Let them go on, and backfill the time they were paused."""
        api = self.api(request)
        return self._each(
            request, queryset, lambda name: api.resume(name, catch_up=True), "resumed"
        )

    @admin.action(description="Backfill…", permissions=["backfill"])
    def backfill(self, request: HttpRequest, queryset: Any) -> HttpResponse:
        """Ask from when to when, show what that would do, and order it."""
        form = BackfillForm(request.POST if {"apply", "look"} & request.POST.keys() else None)
        api, runs = self.api(request), []
        if form.is_valid():
            given = form.cleaned_data
            try:
                runs = [(name, _dry(api, name, given)) for name in _names(queryset)]
            except FieldError as error:
                form.add_error(error.field if error.field in form.fields else None, str(error))
            except DbbeatError as error:
                form.add_error(None, str(error))
        if not form.is_valid() or "apply" not in request.POST:
            return self._ask(request, queryset, form, "backfill", "Backfill", runs=runs)
        given = form.cleaned_data | {"note": form.cleaned_data["note"] or None}
        return self._each(
            request, queryset, lambda name: api.backfill(name, **given), "to be backfilled"
        )

    def _each(
        self, request: HttpRequest, queryset: Any, do: Callable[[str], Any], done: str
    ) -> HttpResponse:
        count = 0
        for name in _names(queryset):
            try:
                do(name)
                count += 1
            except DbbeatError as error:
                self.message_user(request, str(error), messages.ERROR)  # type: ignore[attr-defined]  # of the class beside this
        if count:
            said = ngettext("%d schedule %s.", "%d schedules %s.", count) % (count, done)
            self.message_user(request, said, messages.SUCCESS)  # type: ignore[attr-defined]  # of the class beside this
        return views.back(self, request)

    def _ask(  # noqa: PLR0913 - what the page shows
        self,
        request: HttpRequest,
        queryset: Any,
        form: forms.Form,
        action: str,
        title: str,
        *,
        runs: Any = (),
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),  # type: ignore[attr-defined]  # of the class beside this
            "title": f"{title}: {queryset.count()} of the schedules"
            if queryset.count() > 1
            else f"{title} {queryset.first()}",
            "opts": self.opts,  # type: ignore[attr-defined]  # of the class beside this
            "form": form,
            "action": action,
            "button": title,
            "names": _names(queryset),
            "chosen": request.POST.getlist(ACTION_CHECKBOX_NAME),
            "across": request.POST.get("select_across", "0"),
            "came_from": request.POST.get("_from", ""),
            "runs": runs,
            "media": self.media,  # type: ignore[attr-defined]  # of the class beside this
        }
        return TemplateResponse(request, "admin/dbbeat/schedule/order.html", context)


def _names(queryset: Any) -> list[str]:
    names = list(queryset.values_list("name", flat=True)[: MOST + 1])
    if len(names) > MOST:
        raise FieldError("schedules", f"more than {MOST} are chosen; allowed are {MOST} at once")
    return names


def _dry(api: Schedules, name: str, given: dict[str, Any]) -> Any:
    return api.backfill(
        name, given["start"], given["end"], dry_run=True, reprocess=given["reprocess"], limit=20
    )
