"""One tick sent by Celery's own `apply_async` and by the publisher, to be compared."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from celery import Celery
from celery.signals import after_task_publish, before_task_publish, task_sent
from celery.utils.dispatch import Signal

from celery_dbbeat.beat.message import headers_of
from celery_dbbeat.store.cursors import Outgoing
from tests.beat.outgoing import outgoing

SIGNALS: dict[str, Signal] = {
    "before": before_task_publish,
    "after": after_task_publish,
    "sent": task_sent,
}
#: How far apart two sends may be, and what is computed from the time of sending with them.
TOLERANCE = timedelta(seconds=10)


@dataclass(frozen=True)
class Case:
    """A task with arguments and options, and the app's settings."""

    task: str = "tests.plain"
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    def outgoing(self) -> Outgoing:
        """As a tick."""
        return outgoing(self.task, args=self.args, kwargs=self.kwargs, options=self.options)


def send_as_celery(app: Celery, case: Case, one: Outgoing) -> None:
    """Send with the same id and the headers that beat adds."""
    options = deepcopy(case.options)
    options["headers"] = {**(options.get("headers") or {}), **headers_of(one)}
    options["task_id"] = str(one.tick.task_id)
    arguments = deepcopy(case.args), deepcopy(case.kwargs)
    if case.task in app.tasks:
        app.tasks[case.task].apply_async(*arguments, **options)
    else:
        app.send_task(case.task, *arguments, **options)


@contextmanager
def recorded_signals() -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """Every signal about publishing with its arguments, in order."""
    seen: list[tuple[str, dict[str, Any]]] = []

    def recorder(name: str) -> Any:  # noqa: ANN401
        def record(**arguments: object) -> None:
            arguments.pop("signal")
            seen.append((name, deepcopy(arguments)))

        return record

    recorders = {name: recorder(name) for name in SIGNALS}
    for name, signal in SIGNALS.items():
        signal.connect(recorders[name], weak=False)
    try:
        yield seen
    finally:
        for name, signal in SIGNALS.items():
            signal.disconnect(recorders[name])


def assert_same(ours: object, theirs: object, path: str = "") -> None:
    """Equal field by field; instants computed when sending may lie a little apart."""
    assert type(ours) is type(theirs), f"{path}: {ours!r} is not {theirs!r}"
    if isinstance(ours, dict) and isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), path
        for key, value in ours.items():
            assert_same(value, theirs[key], f"{path}.{key}")
    elif isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs), f"{path}: {ours!r} is not {theirs!r}"
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(one, other, f"{path}[{place}]")
    else:
        assert ours == theirs or _close(path, ours, theirs), f"{path}: {ours!r} is not {theirs!r}"


def _close(path: str, ours: object, theirs: object) -> bool:
    name = path.rpartition(".")[2]
    if name in {"eta", "expires"}:
        instants = [datetime.fromisoformat(str(value)) for value in (ours, theirs)]
        return abs(instants[0] - instants[1]) < TOLERANCE
    if name in {"expiration", "timestamp", "local_received", "clock"}:
        # Milliseconds in a broker, seconds in a signal.
        apart = abs(float(str(ours)) - float(str(theirs)))
        return apart < TOLERANCE.total_seconds() * (1000 if isinstance(ours, str) else 1)
    return False
