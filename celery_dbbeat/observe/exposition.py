"""Readings as the text that Prometheus reads, by its own library (`celery-dbbeat[metrics]`).

What else the process counts with that library is shown too: its own memory, CPU and files, and
metrics of the app. Where PROMETHEUS_MULTIPROC_DIR says that the app's are in files of several
processes, those files are read.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, groupby
from typing import Any

from celery_dbbeat.observe.board import Reading
from celery_dbbeat.observe.catalogue import Metric

Read = Callable[[], Iterable[Reading]]


def installed() -> bool:
    """Whether there is the library."""
    try:
        import prometheus_client  # noqa: F401, PLC0415 - an extra
    except ImportError:
        return False
    return True


def exposition(accept: str, reads: Sequence[Read]) -> tuple[str, bytes]:
    """The type and the text that the reader asks for."""
    from prometheus_client.exposition import choose_encoder  # noqa: PLC0415 - an extra

    encode, content_type = choose_encoder(accept)
    return content_type, encode(_Collector(reads))


class _Collector:
    """What the library asks for families, as it asks a registry."""

    def __init__(self, reads: Sequence[Read]) -> None:
        self._reads = reads

    def collect(self) -> Iterator[Any]:
        yield from _of_the_app()
        for read in self._reads:
            yield from _families(read())


def _of_the_app() -> Iterable[Any]:
    from prometheus_client import REGISTRY, CollectorRegistry  # noqa: PLC0415 - an extra
    from prometheus_client.multiprocess import MultiProcessCollector  # noqa: PLC0415 - an extra

    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return REGISTRY.collect()
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return registry.collect()


def _families(readings: Iterable[Reading]) -> Iterator[Any]:
    for metric, of_one in groupby(readings, lambda reading: reading.metric):
        labels = [metric.label] if metric.label else []
        family = _family(metric, labels)
        for reading in of_one:
            values = [reading.value] if labels else []
            if metric.kind == "histogram":
                *counts, total = reading.numbers
                bounds = [*map(str, metric.buckets), "+Inf"]
                family.add_metric(values, list(zip(bounds, accumulate(counts), strict=True)), total)
            else:
                family.add_metric(values, reading.numbers[0])
        yield family


def _family(metric: Metric, labels: Sequence[str]) -> Any:  # noqa: ANN401 - three classes
    from prometheus_client import core  # noqa: PLC0415 - an extra

    kinds = {
        "counter": core.CounterMetricFamily,
        "gauge": core.GaugeMetricFamily,
        "histogram": core.HistogramMetricFamily,
    }
    return kinds[metric.kind](metric.name, metric.help, labels=labels)
