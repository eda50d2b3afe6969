"""Random cron expressions around changes of the clocks, against the oracle.

    python -m tests.rules.sweep --cases 100000

prints how many of them differ, and the first few that do.
"""

from __future__ import annotations

import argparse
from bisect import bisect_right
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime, timedelta
from itertools import count
from random import Random

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.trigger import parse_trigger
from tests.rules.expressions import make
from tests.rules.oracle import UTC, ZONES, Spec, changes, fire_times

_STRETCH = timedelta(hours=40)
_EXPRESSIONS = 20  # for one stretch of time, as looking at the clocks is what costs


def differences(spec: Spec, zone: str, middle: datetime, rng: Random) -> list[str]:
    """What the trigger gets wrong in the stretch around `middle`, from several starts."""
    start, end = middle - _STRETCH, middle + _STRETCH
    expected = fire_times(spec, zone, start - timedelta(days=1), end)
    try:
        trigger = parse_trigger("cron", spec.text, zone)
    except TriggerError as error:
        return [f"{spec.text!r} in {zone}: {error}"] if expected else []
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
            found.append(f"{spec.text!r} in {zone} after {after}: {have}, and not {want}")
    return found


def stretches(rng: Random) -> Iterator[tuple[str, datetime]]:
    while True:
        zone = rng.choice(ZONES)
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
            found += differences(make(rng).spec, zone, middle, rng)[:1]
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
    print(f"{share * options.processes} expressions, {len(found)} differ")
    for line in found[:20]:
        print(line)


if __name__ == "__main__":
    main()
