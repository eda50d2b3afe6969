"""Random expressions around changes of the clocks, against the oracle.

    python -m tests.rules.sweep --cases 100000

prints how many of them differ, and the first few that do. A case is an expression in a zone, asked
from some hundred instants. Zones are all there are; half of the cases are in those of the oracle.
"""

from __future__ import annotations

import argparse
from bisect import bisect_right
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from random import Random
from zoneinfo import ZoneInfo, available_timezones

from dateutil.relativedelta import relativedelta
from dateutil.rrule import rrulestr

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.trigger import parse_trigger
from celery_dbbeat.rules.zone import find_zone
from tests.rules.expressions import make
from tests.rules.oracle import UTC, ZONES, changes, fire_times, fire_times_of
from tests.rules.rules import make_dense_rule

_STRETCH = timedelta(hours=40)
_DAY = timedelta(days=1)
_KNOWN = 0.5
_EXPRESSIONS = 20  # for one stretch of time, as looking at the clocks is what costs


def _is_zone(name: str) -> bool:
    try:
        find_zone(name)
    except TriggerError:
        return False
    return True


_ALL = sorted(filter(_is_zone, available_timezones()))


@dataclass(frozen=True)
class Case:
    kind: str
    text: str
    zone: str
    expected: list[datetime]
    start_at: datetime | None = None


def cron_case(zone: str, middle: datetime, rng: Random) -> Case:
    spec = make(rng).spec
    start, end = middle - _STRETCH - _DAY, middle + _STRETCH
    return Case("cron", spec.text, zone, fire_times(spec, zone, start, end))


def rule_case(zone: str, middle: datetime, rng: Random) -> Case:
    start, end = middle - _STRETCH - _DAY, middle + _STRETCH
    wall = start.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    text, through = make_dense_rule(rng, wall - _DAY)
    times = rrulestr(text).between(wall - _DAY, wall + 6 * _DAY)
    return Case("rrule", text, zone, fire_times_of(times, zone, start, end, through=through))


def month_case(zone: str, middle: datetime, rng: Random) -> Case:
    months, past = rng.choice((1, 2, 3, 12)), rng.randrange(40)
    start, end = middle - _STRETCH - _DAY, middle + _STRETCH
    near = middle + timedelta(minutes=rng.randrange(-240, 240))
    anchor = near.astimezone(ZoneInfo(zone)).replace(tzinfo=None, second=0, microsecond=0)
    anchor -= relativedelta(months=months * past)
    start_at = anchor.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    anchor = start_at.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    times = {anchor + relativedelta(months=months * n) for n in range(past + 3)}
    expected = [at for at in fire_times_of(times, zone, start, end, through=False) if at > start_at]
    expected = sorted({*expected, *([start_at] if start <= start_at <= end else [])})
    return Case("interval", f"{months} months", zone, expected, start_at)


_KINDS = (*[cron_case] * 8, rule_case, month_case)


def differences(case: Case, middle: datetime, rng: Random) -> list[str]:
    """What the trigger gets wrong in the stretch around `middle`, from several starts."""
    start, end = middle - _STRETCH, middle + _STRETCH
    expected, shown = case.expected, f"{case.text!r} in {case.zone}"
    try:
        trigger = parse_trigger(case.kind, case.text, case.zone, case.start_at)
    except TriggerError as error:
        return [f"{shown}: {error}"] if expected else []
    found = []
    seconds = int(2 * _STRETCH.total_seconds())
    near = [middle + timedelta(seconds=s) for s in (-3600, -1, 0, 1, 1800, 3600, 5400)]
    afar = [
        start + timedelta(seconds=rng.randrange(seconds), microseconds=rng.randrange(3))
        for _ in range(8)
    ]
    for after in near + afar + expected[:200]:
        index = bisect_right(expected, after)
        want = expected[index] if index < len(expected) else None
        have = trigger.next(after)
        if have != want and (want is not None or (have is not None and have <= end)):
            found.append(f"{shown} from {case.start_at} after {after}: {have}, and not {want}")
    return found


def stretches(rng: Random) -> Iterator[tuple[str, datetime]]:
    while True:
        zone = rng.choice(ZONES if rng.random() < _KNOWN else _ALL)
        if changes(zone) and rng.random() < 0.85:
            yield zone, rng.choice(changes(zone))
        else:
            days = rng.randrange(20 * 365)
            yield zone, datetime(2011, 1, 1, tzinfo=UTC) + timedelta(days=days)


def sweep(seed: int, cases: int) -> list[str]:
    rng, done = Random(seed), count()  # noqa: S311
    found: list[str] = []
    for zone, middle in stretches(rng):
        for _ in range(_EXPRESSIONS):
            if next(done) >= cases:
                return found
            case = rng.choice(_KINDS)(zone, middle, rng)
            found += differences(case, middle, rng)[:1]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    share = -(-options.cases // options.processes)
    with ProcessPoolExecutor(options.processes) as pool:
        seeds = range(options.seed, options.seed + options.processes)
        found = [
            line for lines in pool.map(sweep, seeds, [share] * options.processes) for line in lines
        ]
    print(f"{share * options.processes} cases, {len(found)} differ")
    for line in found[:20]:
        print(line)


if __name__ == "__main__":
    main()
