"""A tick's trace goes from beat to its worker, by OpenTelemetry's own instrumentation."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery import Celery
from opentelemetry.instrumentation.celery import CeleryInstrumentor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from celery_dbbeat.beat.message import Messages
from tests.beat.broker import redis_lists
from tests.beat.conftest import MakeApp, MakePublisher
from tests.beat.outgoing import ids, numbered, outgoing

Spans = Callable[[], list[ReadableSpan]]


@pytest.fixture
def spans() -> Iterator[Spans]:
    """Instrument Celery; returns the spans that are over."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor = CeleryInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    yield lambda: list(exporter.get_finished_spans())
    instrumentor.uninstrument()
    provider.shutdown()


@pytest.fixture
def app(make_app: MakeApp, redis_url: str) -> Celery:
    app = make_app(redis_url, task_ignore_result=True)

    @app.task(name="tests.plain", shared=False)  # type: ignore[untyped-decorator]
    def plain(*_: object) -> None:
        """Nothing."""

    return app


def run(app: Celery, message: dict[str, Any]) -> None:
    """Run a message's task as a worker does: its headers are its request."""
    headers = message["headers"]
    task = app.tasks[headers["task"]]
    task.__trace__ = None
    from celery.app.trace import build_tracer  # noqa: PLC0415 - it reads signals as they are now

    build_tracer(task.name, task, app=app)(headers["id"], [], {}, {**headers, "is_eager": False})


def parents(message: dict[str, Any]) -> tuple[str, str]:
    """Trace and span that a message says it comes from."""
    _, trace, span, _ = message["headers"]["traceparent"].split("-")
    return trace, span


def hexed(span: ReadableSpan) -> tuple[str, str]:
    context = span.context
    assert context is not None
    return f"{context.trace_id:032x}", f"{context.span_id:016x}"


def test_a_workers_span_is_the_child_of_beats(
    app: Celery, make_publisher: MakePublisher, redis_url: str, spans: Spans
) -> None:
    one = outgoing()
    # The way that most ticks go, and not Celery's own.
    assert Messages(app)._prepare(one.schedule.task, one.schedule.options) is not None
    assert make_publisher(app).publish([one]).sent == [one]
    (sent,) = spans()
    assert sent.name == "apply_async/tests.plain"
    (message,) = redis_lists(redis_url)["celery"]
    assert parents(message) == hexed(sent)
    run(app, message)
    _, ran = spans()
    assert ran.name == "run/tests.plain"
    assert ran.parent is not None
    assert hexed(ran)[0] == hexed(sent)[0]
    assert f"{ran.parent.span_id:016x}" == hexed(sent)[1]
    assert ran.attributes is not None
    assert ran.attributes["messaging.message.id"] == ids([one])[0]


@pytest.mark.parametrize("task", ["tests.plain", "tests.unknown_to_beat"])
@pytest.mark.parametrize("options", [{}, {"countdown": 5}], ids=["plain", "as Celery sends it"])
def test_each_tick_has_a_trace_of_its_own(
    app: Celery,
    make_publisher: MakePublisher,
    redis_url: str,
    spans: Spans,
    task: str,
    options: dict[str, object],
) -> None:
    """Also where the instrumentation cannot find the task, and by Celery's own way of sending."""
    batch = numbered(3, task=task, options=options)
    outcome = make_publisher(app).publish(batch)
    assert outcome.sent == batch, list(outcome.impossible.values())
    traces = {parents(message)[0] for message in redis_lists(redis_url)["celery"]}
    assert len(traces) == 3
