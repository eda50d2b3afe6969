"""Fields of the form that take what people write, and leave the judgement to the API."""

import json
from datetime import datetime, timedelta
from typing import Any

from django import forms

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.interval import Interval
from celery_dbbeat.rules.trigger import parse_trigger
from celery_dbbeat.rules.writing import seconds_text

_UNITS = (("week", 604_800), ("day", 86_400), ("hour", 3600), ("minute", 60))


class JsonField(forms.CharField):
    """JSON as text."""

    widget = forms.Textarea

    def __init__(self, *, empty: object, **kwargs: Any) -> None:
        """Leaving it blank means `empty`."""
        super().__init__(required=False, **kwargs)
        self._empty = empty

    def to_python(self, value: Any) -> Any:
        """What the text says."""
        text = super().to_python(value)
        if not text:
            return self._empty
        try:
            return json.loads(text)
        except ValueError as error:
            raise forms.ValidationError(f"{text[:200]!r} is not JSON: {error}") from None

    def prepare_value(self, value: Any) -> Any:
        """As people read it."""
        if isinstance(value, str):
            return value
        return json.dumps(value, ensure_ascii=False)

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Whether it says something else."""
        try:
            return bool(self.to_python(data) != (self._empty if initial is None else initial))
        except forms.ValidationError:
            return True


class SpanField(forms.CharField):
    """A stretch of time: seconds, or words such as `90 minutes`."""

    def to_python(self, value: Any) -> Any:
        """A number of seconds; what is neither that nor such words is left to be refused."""
        text = super().to_python(value)
        if not text:
            return None
        try:
            return float(text)
        except ValueError:
            pass
        try:
            found = parse_trigger("interval", text)
        except TriggerError:
            return text
        return found.every.total_seconds() if isinstance(found, Interval) else text

    def prepare_value(self, value: Any) -> Any:
        """In the largest unit that leaves nothing over."""
        return _span(value) if isinstance(value, timedelta) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Whether it is another length."""
        given = initial if isinstance(initial, timedelta) else self.to_python(initial)
        seconds = given.total_seconds() if isinstance(given, timedelta) else given
        return bool(self.to_python(data) != seconds)


class InstantField(forms.CharField):
    """An instant: with an offset, or a local time of the schedule's zone."""

    def to_python(self, value: Any) -> Any:
        """The text, or None."""
        return super().to_python(value) or None

    def prepare_value(self, value: Any) -> Any:
        """ISO-8601, with its offset."""
        return value.isoformat() if isinstance(value, datetime) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Whether it says something else."""
        return (self.prepare_value(initial) or None) != self.to_python(data)


def _span(length: timedelta) -> str:
    seconds = length.total_seconds()
    for unit, size in _UNITS:
        if seconds and seconds % size == 0:
            count = int(seconds // size)
            return f"{count} {unit}{'s' * (count != 1)}"
    return seconds_text(length)
