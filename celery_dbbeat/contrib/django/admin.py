"""The pages of schedules. They write by the API, so that all is checked, and recorded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar
from zoneinfo import available_timezones

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils.html import format_html

from celery_dbbeat.api import Schedules
from celery_dbbeat.contrib.django import place, records, searching, views
from celery_dbbeat.contrib.django.forms import ScheduleForm
from celery_dbbeat.contrib.django.models import Schedule
from celery_dbbeat.contrib.django.ordering import Ordering
from celery_dbbeat.contrib.django.paging import EstimatingPaginator, ListWithCompanions
from celery_dbbeat.errors import DbbeatError

__all__ = ["ScheduleAdmin", "records"]

#: So many of what is to be deleted are shown by name.
_SHOWN = 20


@admin.register(Schedule)
class ScheduleAdmin(Ordering, admin.ModelAdmin):
    """Schedules: listed, made, changed, deleted, ordered to do something."""

    form = ScheduleForm
    paginator = EstimatingPaginator
    show_full_result_count = False
    show_facets = getattr(getattr(admin, "ShowFacets", None), "NEVER", None)
    list_per_page = 100
    list_max_show_all = 100
    list_display = (
        "name",
        "state_shown",
        "task",
        "when",
        "next_at",
        "labels_shown",
        "owner",
        "runs",
    )
    list_filter = ("state", "owner")
    sortable_by = ("name",)
    search_fields = ("name",)
    search_help_text = (
        "Words of the name, the task or the description; a label as team=billing; "
        "task:shop.tasks.bill; queue:slow"
    )
    change_form_template = "admin/dbbeat/schedule/change_form.html"
    delete_selected_confirmation_template = "admin/dbbeat/schedule/delete_selected.html"
    fieldsets = (
        (None, {"fields": ("name", "task", "description", "version")}),
        ("When", {"fields": ("kind", "expression", "timezone"), "classes": ("dbbeat-when",)}),
        ("What", {"fields": ("args", "kwargs", "queue", "priority", "options", "labels")}),
        (
            "From when to when",
            {"fields": ("start_at", "end_at", "max_runs", "exclude", "jitter"),
             "classes": ("collapse",)},
        ),
        (
            "When something is late, or fails",
            {"fields": ("misfire_grace", "catch_up", "catch_up_limit", "overlap",
                        "max_concurrent", "max_attempts", "on_failure", "resend_after",
                        "pause_after"),
             "classes": ("collapse",)},
        ),
    )  # fmt: skip

    class Media:
        """Files of ours: a page without any script in itself."""

        css: ClassVar[Any] = {"all": ("dbbeat/dbbeat.css",)}
        js = ("dbbeat/preview.js",)

    def get_queryset(self, request: HttpRequest) -> Any:
        """In the database that holds them."""
        return super().get_queryset(request).using(place.alias())

    def get_changelist(self, request: HttpRequest, **_: Any) -> type[ListWithCompanions]:
        """One that fetches what belongs to a page."""
        return ListWithCompanions

    def accompany(self, page: Iterable[Schedule]) -> None:
        """Where the schedules of a page stand."""
        found = place.schedules("").get_many(one.name for one in page)
        for one in page:
            info = found.get(one.name)  # none: deleted just now
            one.next_nominal = info and info.next_nominal

    def url_of(self, one: Schedule) -> str:
        """Its page."""
        return reverse(
            "admin:dbbeat_schedule_change", args=[one.pk], current_app=self.admin_site.name
        )

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> Any:
        """By the indexes that there are."""
        return searching.search(queryset, search_term), False

    @admin.display(description="state", ordering="state")
    def state_shown(self, one: Schedule) -> str:
        """The state, and why."""
        why = one.reason or one.note or ""
        return format_html(
            '<span class="dbbeat-state dbbeat-{}" title="{}">{}</span>', one.state, why, one.state
        )

    @admin.display(description="when")
    def when(self, one: Schedule) -> str:
        """Its expression."""
        shown = one.expression if len(one.expression) <= 60 else f"{one.expression[:60]}…"  # noqa: PLR2004 - a readable length
        return format_html("<code>{}</code> {} <small>{}</small>", shown, one.kind, one.timezone)

    @admin.display(description="next")
    def next_at(self, one: Schedule) -> Any:
        """When it fires next."""
        return one.next_nominal

    @admin.display(description="labels")
    def labels_shown(self, one: Schedule) -> str:
        """Name and value."""
        return ", ".join(f"{name}={value}" for name, value in sorted(one.labels.items()))

    @admin.display(description="history")
    def runs(self, one: Schedule) -> str:
        """A link to what became of it."""
        link = reverse(
            "admin:dbbeat_schedule_runs", args=[one.pk], current_app=self.admin_site.name
        )
        return format_html('<a href="{}">Runs</a>', link)

    # What people may do.

    def has_change_permission(self, request: HttpRequest, obj: Schedule | None = None) -> bool:
        """What the code owns is changed there."""
        return super().has_change_permission(request, obj) and not _codes(obj)

    def has_delete_permission(self, request: HttpRequest, obj: Schedule | None = None) -> bool:
        """What the code owns is deleted there."""
        return super().has_delete_permission(request, obj) and not _codes(obj)

    # The form.

    def get_form(
        self, request: HttpRequest, obj: Schedule | None = None, change: bool = False, **kwargs: Any
    ) -> Any:
        """A form that asks the API as this user."""
        form = super().get_form(request, obj, change, **kwargs)
        form.api = self.api(request)
        form.refused = getattr(request, "dbbeat_refused", None)
        return form

    def api(self, request: HttpRequest) -> Schedules:
        """The schedules, changed in this user's name."""
        return place.schedules(request.user.get_username())

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show what was refused when it was written as a form shows what it finds wrong."""
        context = {**(extra_context or {}), **self._suggestions(request)}
        try:
            return super().changeform_view(request, object_id, form_url, context)
        except DbbeatError as error:
            if request.method != "POST":
                raise
            request.dbbeat_refused = error
            return super().changeform_view(request, object_id, form_url, context)

    def _suggestions(self, request: HttpRequest) -> dict[str, Any]:
        tasks = (task for task in place.app().tasks if not task.startswith("celery."))
        return {
            "dbbeat_tasks": sorted(tasks),
            "dbbeat_zones": sorted(available_timezones() - {"localtime"}),
            "dbbeat_orders": self.orders_for(request),
        }

    def save_model(self, request: HttpRequest, obj: Schedule, form: Any, change: bool) -> None:
        """Write it by the API."""
        given = form.definition()
        if change:
            version = form.cleaned_data["version"]
            form.api.update(form.known_as, version=version, **given)
        else:
            obj.pk = form.api.create(**given).id

    def delete_model(self, request: HttpRequest, obj: Schedule) -> None:
        """Delete it by the API."""
        self.api(request).delete(obj.name)

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        """Delete them by the API."""
        self.api(request).delete_many(queryset.values_list("name", flat=True))

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """What would go: nothing hangs on a schedule, so only the first are named."""
        total = len(objs) if isinstance(objs, list) else objs.count()
        named = [str(one) for one in objs[:_SHOWN]]
        more = [f"and {total - _SHOWN:,} more"] if total > _SHOWN else []
        codes = (
            [one for one in objs if _codes(one)]
            if isinstance(objs, list)
            else objs.filter(owner="code")[:_SHOWN]
        )
        protected = [
            f"{one} comes from the app's beat_schedule: it is deleted there" for one in codes
        ]
        allowed = super().has_delete_permission(request)
        label = self.model._meta.verbose_name  # noqa: SLF001 - Django's own name for it
        return named + more, {f"{label}s": total}, set() if allowed else {label}, protected

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        """Say what was refused."""
        return self._or_say(request, super().delete_view, request, object_id, extra_context)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Say what was refused."""
        return self._or_say(request, super().changelist_view, request, extra_context)

    def _or_say(self, request: HttpRequest, view: Any, *arguments: Any) -> HttpResponse:
        try:
            found: HttpResponse = view(*arguments)
        except DbbeatError as error:
            if request.method != "POST":
                raise
            self.message_user(request, str(error), messages.ERROR)
            return views.back(self, request)
        return found

    # Further pages.

    def get_urls(self) -> list[Any]:
        """The pages of Django, and ours."""
        inside = self.admin_site.admin_view
        own = [
            path("preview/", inside(views.Preview(self)), name="dbbeat_schedule_preview"),
            path("<uuid:identity>/preview/", inside(views.Preview(self))),
            path("<uuid:identity>/runs/", inside(views.Runs(self)), name="dbbeat_schedule_runs"),
        ]
        return own + super().get_urls()


def _codes(one: Schedule | None) -> bool:
    return one is not None and one.owner == "code"
