"""Small pieces of sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_ORDINALS = ("last", "first", "second", "third", "fourth", "fifth")
_RUN = 3
_TEENS = range(11, 14)
_SUFFIXES = {1: "st", 2: "nd", 3: "rd"}


def listed(parts: Iterable[str], last: str = "and") -> str:
    """Return `a, b and c`."""
    *first, final = parts
    return f"{', '.join(first)} {last} {final}" if first else final


def runs(values: Sequence[int]) -> list[tuple[int, int]]:
    """Return the stretches of numbers that follow each other; those of two are told one by one."""
    found: list[tuple[int, int]] = []
    for value in values:
        if found and value == found[-1][1] + 1:
            found[-1] = found[-1][0], value
        else:
            found.append((value, value))
    return [
        part
        for low, high in found
        for part in (
            [(low, high)] if high - low + 1 >= _RUN else [(n, n) for n in range(low, high + 1)]
        )
    ]


def step_of(values: Sequence[int], size: int) -> int | None:
    """Return n where the values are every n-th of `size`, from one of the first n on, evenly."""
    step = values[1] - values[0] if len(values) > 1 else size
    even = size % step == 0 and list(values) == list(range(values[0], size, step))
    return step if even and values[0] < step else None


def weekdays(values: Sequence[int]) -> str:
    """Return such as `Monday to Friday`; a week begins on Monday."""
    from_monday = sorted((value - 1) % 7 for value in values)
    return spans([(low, high) for low, high in runs(from_monday)], lambda n: WEEKDAYS[(n + 1) % 7])


def months(values: Sequence[int]) -> str:
    """Return such as `January and July`."""
    return spans(runs(values), lambda n: MONTHS[n - 1])


def spans(found: Iterable[tuple[int, int]], show: Callable[[int], str]) -> str:
    """Return `a, b to c and d`."""
    return listed(
        show(low) if low == high else f"{show(low)} to {show(high)}" for low, high in found
    )


def nth(number: int) -> str:
    """Return `1st`, `22nd`."""
    suffix = "th" if number in _TEENS else _SUFFIXES.get(number % 10, "th")
    return f"{number}{suffix}"


def ordinal(number: int) -> str:
    """Return `first`; 0 is `last`, and below it counts from there."""
    if number > 0:
        return _ORDINALS[number] if number < len(_ORDINALS) else nth(number)
    return "last" if number in {0, -1} else f"{nth(-number)} to last"


def counted(number: int, unit: str) -> str:
    """Return `minute` for 1, `5 minutes` for 5."""
    return unit if number == 1 else f"{number} {unit}s"


def day(value: date) -> str:
    """Return `25 December 2026`."""
    return f"{value.day} {MONTHS[value.month - 1]} {value.year}"


def clock(hour: int, minute: int, second: int = 0) -> str:
    """Return `09:00`, with seconds if there are any."""
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")
