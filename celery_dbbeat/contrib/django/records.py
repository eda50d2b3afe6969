"""Pages of what beat and workers wrote, to be read: ticks, dead letters, runs, replicas.

A tick is found by its schedule, as its key begins with that; a run by its task id. Without either
there is nothing to walk along but all of them, so those pages begin with a search.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import ngettext

from celery_dbbeat.contrib.django import place
from celery_dbbeat.contrib.django.models import DeadLetter, Replica, Run, Schedule, Tick
from celery_dbbeat.contrib.django.paging import EstimatingPaginator, ListWithCompanions
from celery_dbbeat.errors import DbbeatError

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
#: So many of a schedule's newest ticks are looked at for its runs.
_NEWEST = 1000


class Record(admin.ModelAdmin):
    """Rows to be read, not written."""

    paginator = EstimatingPaginator
    show_full_result_count = False
    show_facets = getattr(getattr(admin, "ShowFacets", None), "NEVER", None)
    list_per_page = 100
    list_max_show_all = 100
    sortable_by = ()
    actions: Any = None
    change_form_template = "admin/dbbeat/record.html"

    def get_queryset(self, request: HttpRequest) -> Any:
        """In the database that holds them."""
        return super().get_queryset(request).using(place.alias())

    def get_changelist(self, request: HttpRequest, **_: Any) -> type[ListWithCompanions]:
        """One that fetches what belongs to a page."""
        return ListWithCompanions

    def accompany(self, page: Iterable[Any]) -> None:
        """Nothing belongs to it."""

    def url_of(self, one: Any) -> str:
        """Its page."""
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_change"
        return reverse(name, args=[self.key_of(one)], current_app=self.admin_site.name)

    def key_of(self, one: Any) -> str:
        """What it is called in its page's address."""
        return str(one.pk)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody's."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody's."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody's."""
        return False


@admin.register(Tick)
class TickAdmin(Record):
    """The ticks of a schedule."""

    list_display: tuple[str, ...] = (
        "nominal_at", "schedule", "state", "kind", "attempt", "sent_at", "outcome", "count",
        "reason",
    )  # fmt: skip
    list_filter = ()
    search_fields = ("schedule_id",)
    search_help_text = "The name of a schedule: there may be millions of ticks."
    ordering = ("-nominal_at", "-task_id")
    fields: tuple[str, ...] = (
        "schedule", "nominal_at", "task_id", "state", "kind", "attempt", "due_at", "recorded_at",
        "claimed_at", "sent_at", "replica", "epoch", "last_at", "count", "outcome", "reason",
        "losses", "arguments",
    )  # fmt: skip
    readonly_fields: tuple[str, ...] = ("schedule",)

    def lookup_allowed(self, lookup: str, value: str, request: Any = None) -> bool:
        """Links from a schedule's page name it by its id."""
        return lookup == "schedule_id"

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> Any:
        """Those of one schedule; without one, none."""
        if search_term:
            named = Schedule.objects.using(place.alias()).filter(name=search_term.strip())
            identity = named.values_list("id", flat=True).first()
            return (queryset.filter(schedule_id=identity) if identity else queryset.none()), False
        if "schedule_id" not in request.GET:
            return queryset.none(), False
        return queryset, False

    def accompany(self, page: Iterable[Any]) -> None:
        """The names of their schedules."""
        _name(page)

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        """By the whole key."""
        try:
            schedule_id, nominal, task_id = object_id.split(",")
            found = self.get_queryset(request).filter(
                schedule_id=UUID(schedule_id),
                nominal_at=_EPOCH + int(nominal) * _MICROSECOND,
                task_id=UUID(task_id),
            )
        except (ValueError, OverflowError):
            return None
        one = found.first()
        if one is not None:
            _name([one])
        return one

    def key_of(self, one: Any) -> str:
        """All three of the key."""
        return f"{one.schedule_id},{(one.nominal_at - _EPOCH) // _MICROSECOND},{one.task_id}"

    @admin.display(description="schedule")
    def schedule(self, one: Any) -> str:
        """Its name, with a link to its page."""
        if one.schedule_name is None:
            return f"{one.schedule_id} (deleted)"
        link = reverse(
            "admin:dbbeat_schedule_runs", args=[one.schedule_id], current_app=self.admin_site.name
        )
        return format_html('<a href="{}">{}</a>', link, one.schedule_name)


@admin.register(DeadLetter)
class DeadLetterAdmin(TickAdmin):
    """Ticks that were given up, the newest first; they can be sent again."""

    list_display: tuple[str, ...] = (
        "nominal_at",
        "schedule",
        "attempt",
        "reason",
        "error",
        "worker",
    )
    search_help_text = "The name of a schedule."
    fields: tuple[str, ...] = (*TickAdmin.fields, "error", "worker", "traceback")
    readonly_fields: tuple[str, ...] = ("schedule", "error", "worker", "traceback")
    actions = ("replay",)

    def get_queryset(self, request: HttpRequest) -> Any:
        """Dead ones alone: they have an index of their own."""
        return super().get_queryset(request).filter(state="dead")

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> Any:
        """Those of one schedule, or all."""
        if search_term:
            return super().get_search_results(request, queryset, search_term)
        return queryset, False

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        """With its run."""
        one = super().get_object(request, object_id, from_field)
        if one is not None:
            _attach_runs([one])
        return one

    def accompany(self, page: Iterable[Any]) -> None:
        """The names of their schedules, and their runs."""
        _name(page)
        _attach_runs(page)

    def has_replay_permission(self, request: HttpRequest) -> bool:
        """Whether this user may have them sent again."""
        return bool(request.user.has_perm("dbbeat.replay_tick"))

    @admin.action(description="Replay: run again under the same id", permissions=["replay"])
    def replay(self, request: HttpRequest, queryset: Any) -> None:
        """All of them, or none where one cannot be."""
        ids = list(queryset.values_list("task_id", flat=True))
        try:
            place.schedules(request.user.get_username()).replay(*ids)
        except DbbeatError as error:
            self.message_user(request, str(error), messages.ERROR)
            return
        said = ngettext("%d is sent again.", "%d are sent again.", len(ids)) % len(ids)
        self.message_user(request, said, messages.SUCCESS)

    @admin.display(description="error")
    def error(self, one: Any) -> Any:
        """Of its last run."""
        return one.run and one.run.error

    @admin.display(description="worker")
    def worker(self, one: Any) -> Any:
        """Of its last run."""
        return one.run and one.run.worker

    @admin.display(description="traceback")
    def traceback(self, one: Any) -> Any:
        """Of its last run."""
        return one.run and format_html("<pre>{}</pre>", one.run.traceback or "")


@admin.register(Run)
class RunAdmin(Record):
    """Runs of ticks by workers."""

    list_display: tuple[str, ...] = (
        "nominal_at",
        "schedule",
        "status",
        "attempt",
        "worker",
        "started_at",
        "took",
        "error",
    )
    search_fields = ("task_id",)
    search_help_text = "A task id, or the name of a schedule: there may be millions of runs."
    ordering = ("-nominal_at", "-task_id")
    fields: tuple[str, ...] = (
        "schedule", "nominal_at", "task_id", "status", "attempt", "retries", "worker", "started_at",
        "ended_at", "took", "lease_until", "result", "error", "traceback", "earlier",
    )  # fmt: skip
    readonly_fields: tuple[str, ...] = ("took",)

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> Any:
        """By task id, or those of a schedule's newest ticks."""
        typed = search_term.strip()
        if not typed:
            return queryset.none(), False
        try:
            return queryset.filter(task_id=UUID(typed)), False
        except ValueError:
            return _runs_of(queryset, typed), False

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        """By the whole key."""
        try:
            nominal, task_id = object_id.split(",")
            found = self.get_queryset(request).filter(
                task_id=UUID(task_id), nominal_at=_EPOCH + int(nominal) * _MICROSECOND
            )
        except (ValueError, OverflowError):
            return None
        return found.first()

    def key_of(self, one: Any) -> str:
        """Both of the key."""
        return f"{(one.nominal_at - _EPOCH) // _MICROSECOND},{one.task_id}"

    @admin.display(description="took")
    def took(self, one: Any) -> Any:
        """How long."""
        return one.ended_at and one.ended_at - one.started_at


@admin.register(Replica)
class ReplicaAdmin(Record):
    """Beat processes."""

    list_display: tuple[str, ...] = (
        "id",
        "hostname",
        "pid",
        "release",
        "ready",
        "started_at",
        "seen_at",
    )
    ordering = ("-seen_at", "id")


def _name(ticks: Iterable[Any]) -> None:
    ids = {one.schedule_id for one in ticks}
    rows = Schedule.objects.using(place.alias()).filter(id__in=ids).values_list("id", "name")
    names = dict(rows)
    for one in ticks:
        one.schedule_name = names.get(one.schedule_id)


def _attach_runs(ticks: Iterable[Any]) -> None:
    runs = {one.task_id: one for one in _by_keys(Run.objects.using(place.alias()), ticks)}
    for one in ticks:
        one.run = runs.get(one.task_id)


def _runs_of(queryset: Any, name: str) -> Any:
    named = Schedule.objects.using(place.alias()).filter(name=name)
    identity = named.values_list("id", flat=True).first()
    if identity is None:
        return queryset.none()
    ticks = Tick.objects.using(place.alias()).filter(schedule_id=identity)
    newest = ticks.order_by("-nominal_at", "-task_id").only("task_id", "nominal_at")
    return _by_keys(queryset, newest[:_NEWEST])


def _by_keys(queryset: Any, ticks: Iterable[Any]) -> Any:
    """Bounded by time as well, so that partitions of other days stay closed."""
    nominals = [one.nominal_at for one in ticks]
    if not nominals:
        return queryset.none()
    return queryset.filter(
        task_id__in=[one.task_id for one in ticks],
        nominal_at__gte=min(nominals),
        nominal_at__lte=max(nominals),
    )
