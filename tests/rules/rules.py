"""Recurrence rules made at random."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY")
# dateutil walks from DTSTART.
_DAYS = {"HOURLY": 60, "MINUTELY": 4}
_ALL_HOURS = len(",".join(map(str, range(24))))
WEEKDAYS = ("SU", "MO", "TU", "WE", "TH", "FR", "SA")


def make_rule(rng: Random, around: datetime) -> str:
    """A rule with a DTSTART not long before that local time, on whole minutes."""
    frequency = rng.choice(FREQUENCIES)
    start = around - timedelta(minutes=rng.randrange(60 * 24 * _DAYS.get(frequency, 800)))
    parts = {"FREQ": frequency, **_days(rng, frequency), **_times(rng, frequency)}
    if rng.random() < 0.6:
        parts["INTERVAL"] = str(rng.choice((1, 2, 3, 5, 7, 13, 30)))
    if rng.random() < 0.2:
        parts["WKST"] = rng.choice(WEEKDAYS)
    if rng.random() < 0.2 and any(name.startswith("BY") for name in parts):
        parts["BYSETPOS"] = _some(rng, [-3, -2, -1, 1, 2, 3, 10], 2)
        if frequency == "WEEKLY":
            # dateutil counts from DTSTART in the first week, and not from that week's beginning.
            first = (WEEKDAYS.index(parts.get("WKST", "MO")) - 1) % 7
            start -= timedelta(days=(start.weekday() - first) % 7)
    ending = rng.randrange(5)
    if ending == 0:
        parts["COUNT"] = str(rng.randint(1, 400))
    if ending == 1:
        until = around + timedelta(minutes=rng.randrange(-3000, 60 * 24 * 100))
        parts["UNTIL"] = f"{until:%Y%m%dT%H%M%S}"
    items = list(parts.items())
    rng.shuffle(items)
    rule = ";".join(f"{name}={value}" for name, value in items)
    return f"DTSTART:{start.replace(second=0):%Y%m%dT%H%M%S}\nRRULE:{rule}"


def make_dense_rule(rng: Random, start: datetime) -> tuple[str, bool]:
    """A rule that fires each few days, and whether it runs through every hour."""
    frequency = rng.choice(("DAILY", "HOURLY", "MINUTELY"))
    parts = {"FREQ": frequency, **_times(rng, frequency)}
    if frequency != "DAILY":
        parts["INTERVAL"] = str(rng.choice((1, 2, 3, 7, 45)))
    if frequency != "DAILY" and "BYHOUR" in parts and len(parts["BYHOUR"]) < _ALL_HOURS:
        parts["INTERVAL"] = "1"
    minutes = f"BYMINUTE={rng.randrange(60)};" if frequency == "HOURLY" else ""
    if minutes:
        parts.pop("BYMINUTE", None)
    through = frequency != "DAILY" and len(parts.get("BYHOUR", "x" * _ALL_HOURS)) >= _ALL_HOURS
    rule = minutes + ";".join(f"{name}={value}" for name, value in parts.items())
    if frequency == "MINUTELY" and "BYMINUTE" in parts:
        rule = rule.replace(f"INTERVAL={parts['INTERVAL']}", "INTERVAL=1")
    return f"DTSTART:{start.replace(second=0):%Y%m%dT%H%M%S}\nRRULE:{rule}", through


def _days(rng: Random, frequency: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    if rng.random() < 0.3:
        parts["BYMONTH"] = _some(rng, range(1, 13), 8)
    kind = rng.randrange(8)
    if kind in {0, 1}:
        parts["BYDAY"] = _some(rng, WEEKDAYS, 4)
    elif kind == 2 and frequency in {"YEARLY", "MONTHLY"}:
        # dateutil asks for both where some weekdays have a number and some do not.
        parts["BYDAY"] = _some(rng, [f"{n}{d}" for n in (-2, -1, 1, 2, 5) for d in WEEKDAYS], 5)
    elif kind == 3:
        parts["BYMONTHDAY"] = _some(rng, [*range(1, 32), -1, -2, -31], 10)
    elif kind == 4:
        parts["BYYEARDAY"] = _some(rng, [*range(1, 367), *range(-366, 0)], 150)
    elif kind == 5 and frequency == "YEARLY":
        parts["BYWEEKNO"] = _some(rng, [*range(1, 54), *range(-53, 0)], 15)
    if kind in {3, 4, 5} and rng.random() < 0.3:
        parts["BYDAY"] = _some(rng, WEEKDAYS, 4)
    return parts


def _times(rng: Random, frequency: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    if rng.random() < 0.5:
        parts["BYHOUR"] = _some(rng, [0, 1, 2, 3, 23, rng.randrange(24)], 4)
    if rng.random() < 0.3:
        parts["BYMINUTE"] = _some(rng, range(60), 5)
    if frequency == "MINUTELY" and rng.random() < 0.1:
        parts["BYHOUR"] = ",".join(map(str, range(24)))
    return parts


def _some(rng: Random, values: object, most: int) -> str:
    chosen = rng.sample(list(values), rng.randint(1, most))  # type: ignore[call-overload]
    return ",".join(map(str, chosen))
