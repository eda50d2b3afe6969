"""Numbers that one process writes, or several forked from one, and any of them reads.

A pool process of a worker cannot be asked for its numbers, and may be killed at any time. So they
lie in memory that it shares with the main process, from before the fork on. Each process writes in
a row of its own, and so needs no lock that another could die with; the next process in the same
place of the pool goes on in the same row, so no count ever falls. Who reads adds the rows up.
"""

import mmap
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from celery_dbbeat.observe.catalogue import OTHER, Metric

_SIZE = 8


@dataclass(frozen=True, slots=True)
class Reading:
    """One metric for one value of its label. Of a histogram: counts by bucket, then the sum."""

    metric: Metric
    value: str
    numbers: Sequence[float]


class Board:
    """The numbers of some metrics."""

    def __init__(self, metrics: Sequence[Metric], rows: int = 1) -> None:
        """All zero; the processes to be forked from this one see the same numbers."""
        self._places: dict[tuple[str, str], int] = {}
        self._buckets = {metric.name: metric.buckets for metric in metrics}
        self._metrics = metrics
        width = 0
        for metric in metrics:
            for value in metric.values:
                self._places[metric.name, value] = width
                width += _width(metric)
        self._width, self._rows = width, rows
        self._cells = memoryview(mmap.mmap(-1, max(1, rows * width) * _SIZE)).cast("d")
        self.write_in_row(0)

    def write_in_row(self, row: int) -> None:
        """From now on this process, and no other, writes here."""
        self._start = row % self._rows * self._width
        # Its threads, and no other process, wait for each other.
        self._lock = threading.Lock()

    def add(self, name: str, value: str = "", by: float = 1.0) -> None:
        """Count."""
        place = self._place(name, value)
        with self._lock:
            self._cells[place] += by

    def set(self, name: str, to: float) -> None:
        """Set a gauge."""
        self._cells[self._place(name, "")] = to

    def observe(self, name: str, seconds: Iterable[float], value: str = "") -> None:
        """Put each into its bucket."""
        place, buckets = self._place(name, value), self._buckets[name]
        cells, sum_at = self._cells, place + len(buckets) + 1
        with self._lock:
            for one in seconds:
                cells[place + bisect_left(buckets, one)] += 1.0
                cells[sum_at] += one

    def read(self) -> Iterator[Reading]:
        """All that is known, of all rows together."""
        for metric in self._metrics:
            for value in metric.values:
                first = self._places[metric.name, value]
                places = range(first, first + _width(metric))
                yield Reading(metric, value, [self._sum(place) for place in places])

    def _place(self, name: str, value: str) -> int:
        place = self._places.get((name, value))
        return self._start + (self._places[name, OTHER] if place is None else place)

    def _sum(self, place: int) -> float:
        return sum(self._cells[place :: self._width])


def _width(metric: Metric) -> int:
    return len(metric.buckets) + 2 if metric.kind == "histogram" else 1
