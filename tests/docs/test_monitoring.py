"""What docs/monitoring.md says of metrics and logs is what there is."""

import json
import logging
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from celery.signals import after_setup_logger

from celery_dbbeat.observe.catalogue import BEAT, CLUSTER, WORKER, Metric
from celery_dbbeat.observe.logs import facts
from tests.docs.test_docs import ROOT, _blocks, _rows

PAGE = ROOT / "docs/monitoring.md"
OF = {"beat": BEAT, "leader": CLUSTER, "worker": WORKER}


def row(whose: str, metric: Metric) -> list[str]:
    label = f"`{metric.label}`: {', '.join(metric.values)}" if metric.label else "–"
    return [f"`{metric.name}`", metric.kind, whose, label, metric.help]


def test_the_table_of_metrics_is_the_catalogue() -> None:
    wanted = [row(whose, metric) for whose, metrics in OF.items() for metric in metrics]
    assert _rows("docs/monitoring.md", "metric") == wanted


def test_the_table_of_events_is_what_the_code_says() -> None:
    told = {name for cells in _rows("docs/monitoring.md", "event") for name in cells[0].split(", ")}
    sources = [path.read_text() for path in (ROOT / "celery_dbbeat").rglob("*.py")]
    said = {
        name for source in sources for name in re.findall(r'\b(?:facts|_about)\(\s*"(\w+)"', source)
    }
    assert {name.strip("`") for name in told} == said


def test_the_table_of_alerts_is_the_file() -> None:
    rules = (ROOT / "deploy/prometheus/rules.yml").read_text()
    told = {cells[0].strip("`") for cells in _rows("docs/monitoring.md", "alert")}
    assert told == set(re.findall(r"alert: (\w+)", rules))


def test_logs_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {}
    (code,) = (block for block in _blocks(PAGE, "python") if "JsonFormatter" in block)
    exec(code, names)  # noqa: S102 - the page's own code
    logger, written = logging.getLogger("tests.json"), StringIO()
    monkeypatch.setattr(logger, "propagate", False)
    logger.addHandler(logging.StreamHandler(written))
    try:
        after_setup_logger.send(sender=None, logger=logger)
        logger.error("tick %s is dead", "x", extra=facts("dead", schedule="nightly", epoch=7))
    finally:
        after_setup_logger.disconnect(names["log_json"])
        logger.handlers.clear()
    line = json.loads(written.getvalue())
    assert line.pop("time")
    assert line == {
        "level": "ERROR",
        "logger": "tests.json",
        "message": "tick x is dead",
        "event": "dead",
        "schedule": "nightly",
        "epoch": 7,
    }


def test_tracing_as_the_page_has_it() -> None:
    from celery.signals import beat_init, worker_process_init  # noqa: PLC0415 - to be let go below
    from opentelemetry.instrumentation.celery import CeleryInstrumentor  # noqa: PLC0415 - slow

    names: dict[str, Any] = {}
    (code,) = (block for block in _blocks(PAGE, "python") if "CeleryInstrumentor" in block)
    exec(code, names)  # noqa: S102 - the page's own code
    try:
        assert names["trace"] in {signal() for _, signal in beat_init.receivers}
        names["trace"]()
        assert CeleryInstrumentor().is_instrumented_by_opentelemetry
    finally:
        CeleryInstrumentor().uninstrument()
        beat_init.disconnect(names["trace"])
        worker_process_init.disconnect(names["trace"])


def test_files_that_pages_name_are_there() -> None:
    named = {
        name
        for page in ("monitoring.md", "deployment.md")
        for name in re.findall(r"\bdeploy/[\w/.-]+\w", (ROOT / "docs" / page).read_text())
    }
    missing = [name for name in sorted(named) if not (Path(ROOT) / name).exists()]
    assert missing == ["deploy/compose/secrets"]  # which the reader makes
