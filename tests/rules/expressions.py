"""Cron expressions made at random, each together with what it means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from random import Random

from tests.rules.oracle import Spec, is_last, is_nearest, on_nth

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

Question = Callable[[date], bool]


@dataclass(frozen=True)
class Made:
    spec: Spec
    plain: bool  # croniter reads it as we do


@dataclass(frozen=True)
class Field:
    text: str
    values: frozenset[int]
    plain: bool = True


def make(rng: Random, *, seconds: bool = False) -> Made:
    minute, hour = _field(rng, 0, 59), _hours(rng)
    second = _field(rng, 0, 59) if seconds else Field("", frozenset({0}))
    month = Field("*", frozenset(range(1, 13)))
    if rng.random() < 0.15:
        month = _field(rng, 1, 12, MONTHS)
    day_text, on_day, plain_day = _days(rng)
    weekday_text, on_weekday, plain_weekday = _weekdays(rng)
    both = day_text[0] in "*?" or weekday_text[0] in "*?"
    special = not (day_text.isalnum() and weekday_text == "*") and "w" in day_text.lower()
    mixed = "#" in weekday_text and day_text not in "*?"
    text = f"{minute.text} {hour.text} {day_text} {month.text} {weekday_text} {second.text}"
    spec = Spec(
        text=text.strip(),
        seconds=second.values,
        minutes=minute.values,
        hours=hour.values,
        months=month.values,
        on_day=(lambda d: on_day(d) and on_weekday(d))
        if both
        else (lambda d: on_day(d) or on_weekday(d)),
        runs_through=hour.text[0] == "*" or len(hour.values) == 24,
    )
    plain = all((minute.plain, hour.plain, second.plain, month.plain, plain_day, plain_weekday))
    return Made(spec, plain and not special and not mixed)


def _field(rng: Random, low: int, high: int, names: tuple[str, ...] = ()) -> Field:
    kind = rng.randrange(6)
    if kind == 0:
        return Field("*", frozenset(range(low, high + 1)))
    if kind == 1:
        step = rng.randint(1, high + 3)
        return Field(f"*/{step}", frozenset(range(low, high + 1, step)))
    items = [_item(rng, low, high, names) for _ in range(1 if kind < 4 else rng.randint(2, 3))]
    text = ",".join(item.text for item in items)
    values = frozenset().union(*(item.values for item in items))
    return Field(text, values, all(item.plain for item in items))


def _item(rng: Random, low: int, high: int, names: tuple[str, ...]) -> Field:
    def show(number: int) -> str:
        if names and rng.random() < 0.5:
            return rng.choice((str.upper, str.title, str.lower))(names[number - low])
        return str(number)

    first, last, step = rng.randint(low, high), rng.randint(low, high), rng.randint(1, 7)
    circle = [*range(first, high + 1), *range(low, first)]
    kind = rng.randrange(5)
    if kind == 4:
        return Field(f"*/{step}", frozenset(range(low, high + 1, step)))
    if kind == 0:
        return Field(f"{show(first)}/{step}", frozenset(range(first, high + 1, step)), first < high)
    if kind == 1:
        return Field(show(first), frozenset({first}))
    values = circle[: circle.index(last) + 1]
    if kind == 2:
        return Field(f"{show(first)}-{show(last)}", frozenset(values), first != last)
    # croniter loses count in a stepped range that goes round the end.
    return Field(f"{show(first)}-{show(last)}/{step}", frozenset(values[::step]), first < last)


def _hours(rng: Random) -> Field:
    """Mostly hours in which clocks change."""
    if rng.random() < 0.5:
        chosen = frozenset(rng.sample((0, 1, 2, 3, 23), rng.randint(1, 2)))
        return Field(",".join(map(str, chosen)), chosen)
    if rng.random() < 0.1:
        return Field("0-23", frozenset(range(24)))
    return _field(rng, 0, 23)


def _days(rng: Random) -> tuple[str, Question, bool]:
    kind = rng.randrange(12)
    if kind < 6:
        return rng.choice("***?"), lambda _: True, True
    if kind == 6:
        return rng.choice("lL"), is_last, True
    if kind == 7:
        target = rng.randint(1, 31)
        return rng.choice((f"{target}W", f"w{target}")), lambda d: is_nearest(d, target), True
    field = _field(rng, 1, 31)
    if kind == 8:
        text = f"{field.text},L,15W"
        return text, lambda d: d.day in field.values or is_last(d) or is_nearest(d, 15), False
    return field.text, lambda d: d.day in field.values, field.plain and not _written_out(field, 31)


def _written_out(field: Field, size: int) -> bool:
    """Whether it names all there are without a `*`: croniter takes that for one, cron does not."""
    return len(field.values) == size and field.text[0] != "*"


def _weekdays(rng: Random) -> tuple[str, Question, bool]:
    kind = rng.randrange(12)
    if kind < 6:
        return rng.choice("***?"), lambda _: True, True
    weekday, nth = rng.randrange(7), rng.randint(1, 5)
    shown = rng.choice((str(weekday), WEEKDAYS[weekday].upper()))
    if kind == 6:
        return f"{shown}#{nth}", lambda d: on_nth(d, weekday, nth), True
    if kind == 7:
        return f"L{weekday}", lambda d: on_nth(d, weekday, 0), True
    if kind == 8:
        text = f"{shown}#{nth},{shown}L,7"
        return (
            text,
            lambda d: on_nth(d, weekday, nth) or on_nth(d, weekday, 0) or on_nth_any(d),
            False,
        )
    field = _field(rng, 0, 6, WEEKDAYS)
    plain = field.plain and not _written_out(field, 7)
    return field.text, lambda d: d.isoweekday() % 7 in field.values, plain


def on_nth_any(day: date) -> bool:
    return day.isoweekday() == 7
