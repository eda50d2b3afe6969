"""What `/metrics` says, with Prometheus' library and without it."""

import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from celery_dbbeat.observe import exposition, metrics
from celery_dbbeat.observe import worker as observe
from celery_dbbeat.observe.board import Board
from celery_dbbeat.observe.catalogue import ALL, BEAT
from celery_dbbeat.observe.metrics import metrics_route
from tests.support.metrics import samples

OPEN = "application/openmetrics-text; version=1.0.0"
OF_THE_APP = """
import prometheus_client
prometheus_client.Counter("of_the_app_total", "An app's own").inc(3)
from celery_dbbeat.observe.exposition import exposition
print(exposition("", [])[1].decode())
"""


@pytest.fixture
def board() -> Board:
    board = Board(ALL)
    board.add("dbbeat_ticks_total", "sent", 5)
    board.observe("dbbeat_tick_lateness_seconds", [0.02, 2.0, 5000.0])
    return board


def test_every_metric_is_shown_with_all_its_values(board: Board) -> None:
    text = metrics_route(board.read)("").body.decode()
    shown = samples(text)
    for metric in ALL:
        assert f"# HELP {metric.name} {metric.help}" in text
        assert f"# TYPE {metric.name} {metric.kind}" in text
        suffix = "_count" if metric.kind == "histogram" else ""
        assert all((metric.name + suffix, value) in shown for value in metric.values)
    assert shown["dbbeat_ticks_total", "sent"] == 5
    assert shown["dbbeat_tick_lateness_seconds_count", ""] == 3
    assert shown["dbbeat_tick_lateness_seconds_sum", ""] == pytest.approx(5002.02)


def test_buckets_add_up(board: Board) -> None:
    text = metrics_route(board.read)("").body.decode()
    for bound, count in (("0.01", 0), ("0.025", 1), ("2.5", 2), ("3600.0", 2), ("+Inf", 3)):
        assert f'dbbeat_tick_lateness_seconds_bucket{{le="{bound}"}} {count}.0' in text


def test_who_asks_for_openmetrics_gets_it(board: Board) -> None:
    answer = metrics_route(board.read)(OPEN)
    assert answer.content_type.startswith("application/openmetrics-text")
    families = {one.name: one for one in text_string_to_metric_families(answer.body.decode())}
    assert {metric.name.removesuffix("_total") for metric in ALL} <= families.keys()


def test_the_process_itself_is_shown_too(board: Board) -> None:
    assert "process_resident_memory_bytes" in metrics_route(board.read)("").body.decode()


@pytest.mark.parametrize("several", [True, False], ids=["in files", "in memory"])
def test_metrics_of_the_app_are_shown_too(tmp_path: Path, *, several: bool) -> None:
    environment = {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)} if several else {}
    done = subprocess.run(
        [sys.executable, "-c", OF_THE_APP],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert samples(done.stdout)["of_the_app_total", ""] == 3


def test_without_the_library_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, board: Board
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert not exposition.installed()
    answer = metrics_route(board.read)("")
    assert (answer.status, answer.body) == (501, metrics._MISSING)
    assert b"pip install 'celery-dbbeat[metrics]'" in answer.body


def test_what_is_off_counts_nothing() -> None:
    observe.skipped()
    observe.in_pool_process()
    read = observe.enable()
    try:
        observe.skipped()
        counted = {one.metric.name: one.numbers[0] for one in read()}
    finally:
        observe.disable()
    observe.skipped()
    assert counted["dbbeat_duplicates_skipped_total"] == 1
    assert [one.numbers[0] for one in read() if "duplicates" in one.metric.name] == [1]


def test_no_label_is_without_bounds() -> None:
    assert max(len(metric.values) for metric in ALL) <= 10
    assert len(BEAT) == len({metric.name for metric in BEAT})
