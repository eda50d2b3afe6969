"""The form of a schedule: what people type, as a definition for the API to judge.

The form knows no rule of its own. It hands the API what was typed and shows at each field what the
API says is wrong with it; what is written in the end goes by the API as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

from django import forms
from django.forms.models import construct_instance

from celery_dbbeat.api import Schedules
from celery_dbbeat.contrib.django.fields import InstantField, JsonField, SpanField
from celery_dbbeat.contrib.django.models import Schedule
from celery_dbbeat.errors import DbbeatError, FieldError, NameTaken
from celery_dbbeat.rules.trigger import KINDS
from celery_dbbeat.store.managing import Draft

#: What says when a schedule fires.
WHEN = (
    "kind", "expression", "timezone", "start_at", "end_at", "max_runs", "exclude",
)  # fmt: skip
#: Fields that are read together: of one that changed, all are given.
_TOGETHER = (("kind", "expression"), ("options", "queue", "priority"))
_DEFAULTS: Mapping[str, Any] = {
    "args": [],
    "kwargs": {},
    "options": {},
    "exclude": [],
    "labels": {},
}


def _text(*, long: bool = False, required: bool = False, **attrs: str) -> forms.CharField:
    widget = forms.Textarea if long else forms.TextInput
    style = {"class": "vLargeTextField" if long else "vTextField", "autocomplete": "off"}
    if long:
        style["rows"] = "2"
    return forms.CharField(required=required, widget=widget(style | attrs))


def _json(*, empty: object, help_text: str) -> JsonField:
    widget = forms.Textarea({"rows": 2, "class": "vLargeTextField dbbeat-json"})
    return JsonField(empty=empty, widget=widget, help_text=help_text)


def _whole() -> forms.IntegerField:
    return forms.IntegerField(required=False, widget=forms.NumberInput({"class": "vIntegerField"}))


class ScheduleForm(forms.ModelForm):
    """A schedule to be made, or one that is there to be changed."""

    name = _text(required=True)
    task = _text(required=True, list="dbbeat-tasks")
    kind = forms.ChoiceField(choices=[(kind, kind) for kind in KINDS], initial="cron")
    expression = _text(required=True)
    timezone = _text(required=True, list="dbbeat-zones")
    args = _json(empty=[], help_text='A JSON list, such as ["monthly", 3].')
    kwargs = _json(empty={}, help_text='A JSON object, such as {"plan": "monthly"}.')
    options = _json(empty={}, help_text='As for apply_async, such as {"expires": 3600}.')
    exclude = _json(
        empty=[], help_text='Days, local times and rules to leave out, such as ["2030-12-25"].'
    )
    labels = _json(empty={}, help_text='Whatever you like, such as {"team": "billing"}.')
    queue = _text()
    priority = _whole()
    misfire_grace = SpanField(required=False)
    jitter = SpanField(required=False)
    resend_after = SpanField(required=False)
    start_at = InstantField(required=False)
    end_at = InstantField(required=False)
    max_runs = _whole()
    catch_up_limit = _whole()
    max_concurrent = _whole()
    max_attempts = _whole()
    pause_after = _whole()
    description = _text(long=True)
    version = forms.IntegerField(required=False, widget=forms.HiddenInput)

    #: Who checks it, and what was said when it was written a moment ago. The admin sets them.
    api: ClassVar[Schedules]
    refused: ClassVar[DbbeatError | None] = None

    instance: Schedule
    initial: dict[str, Any]

    class Meta:
        """What of the table people may write."""

        model = Schedule
        fields = (
            "name", "task", "kind", "expression", "timezone", "args", "kwargs", "options",
            "misfire_grace", "catch_up", "catch_up_limit", "overlap", "max_concurrent", "jitter",
            "start_at", "end_at", "max_runs", "exclude", "labels", "description", "max_attempts",
            "on_failure", "resend_after", "pause_after", "version",
        )  # fmt: skip

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Show what is there, the queue and the priority apart from the other options."""
        super().__init__(*args, **kwargs)
        self.known_as = str(self.instance.name)
        self._show_defaults()
        for name, field in self.fields.items():
            field.help_text = field.help_text or HELP.get(name, "")

    def _show_defaults(self) -> None:
        if self.instance.pk is None:
            given = {name: value for name, value in self.initial.items() if value not in (None, "")}
            drafted = Draft(name="", task="", kind="cron", expression="")
            shown = {name: getattr(drafted, name) for name in self.fields if hasattr(drafted, name)}
            self.initial = {**shown, **_DEFAULTS, **given, "version": None}
            return
        options = dict(self.instance.options)
        self.initial["queue"] = options.pop("queue", None)
        self.initial["priority"] = options.pop("priority", None)
        self.initial["options"] = options

    @cached_property
    def base(self) -> Draft | None:
        """The schedule as it is."""
        return None if self.instance.pk is None else self.api.get(self.known_as).draft()

    def definition(self) -> dict[str, Any]:
        """What was typed that could be read, by the names of the API; of a change what changed."""
        wanted = set(self.cleaned_data) - {"version"}
        if self.instance.pk is not None:
            wanted &= set(self.changed_data)
            for group in _TOGETHER:
                if wanted & set(group):
                    wanted |= set(group) & set(self.cleaned_data)
        return {name: _given(name, self.cleaned_data[name]) for name in wanted}

    def clean(self) -> dict[str, Any]:
        """Ask the API."""
        if self.refused is not None:
            self._tell(self.refused)
            return dict(self.cleaned_data)
        try:
            problems = self.api.definitions.problems(self.definition(), self.base)
        except DbbeatError as error:
            self.add_error(None, str(error))
            return dict(self.cleaned_data)
        for problem in problems:
            self._tell(problem)
        return dict(self.cleaned_data)

    def _tell(self, problem: DbbeatError) -> None:
        field = "name" if isinstance(problem, NameTaken) else None
        if isinstance(problem, FieldError):
            field = _field_of(problem.field, self.fields)
        if field is None or field not in self.errors:
            self.add_error(field, str(problem))

    def _post_clean(self) -> None:
        """Nothing else is checked: the database is asked by the API alone."""
        self.instance = construct_instance(self, self.instance, self._meta.fields)


def _given(name: str, value: Any) -> Any:
    if name in {"name", "task", "expression", "timezone", "description"}:
        return value
    return None if value == "" else value


def _field_of(argument: str, fields: Mapping[str, Any]) -> str | None:
    """The form's field for an argument of the API."""
    if argument in KINDS:
        return "expression"
    if argument in fields:
        return argument
    return "options" if argument in OF_OPTIONS else None


OF_OPTIONS = frozenset(
    {
        "routing_key", "exchange", "serializer", "compression", "time_limit", "soft_time_limit",
        "headers",
    }
)  # fmt: skip

HELP = {
    "name": "What you call it.",
    "task": "A task that the app knows, or any other that its workers do.",
    "kind": "How to read the expression.",
    "expression": "cron: 0 9 * * MON-FRI; interval: 90 minutes; once: 2030-01-31T09:30; "
    "rrule: FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9; solar: sunset 52.5 13.4",
    "timezone": "In which the expression is read.",
    "start_at": "No fire time before: 2030-01-31T09:30, a local time unless it has an offset.",
    "end_at": "No fire time after.",
    "max_runs": "Finished after so many.",
    "queue": "Where it is sent, unless the task's route says.",
    "priority": "0 to 255, as the broker takes it.",
    "misfire_grace": "How late a fire time may still be sent, as 1 hour; blank: however late.",
    "catch_up": "Of several that are due at once: the latest, all, or none.",
    "catch_up_limit": "At most so many of them; blank: no limit.",
    "overlap": "What to do when the last run is not done. Anything but allow needs the guard.",
    "max_concurrent": "How many runs may be under way, unless overlap is allow.",
    "jitter": "Fire times are delayed by up to this, by a hash: 0, or 5 minutes.",
    "max_attempts": "How often a run is begun before it is a dead letter; blank: as the app says.",
    "on_failure": "When the task fails: a dead letter, or run it again.",
    "resend_after": "When no worker took it for so long, whatever waits; blank: as the app says.",
    "pause_after": "Paused after so many failures in a row; blank: never.",
    "description": "What it is for.",
}
