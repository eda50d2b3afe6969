"""Numbers are counted in their rows, by threads and by forked processes, and never get lost."""

import os
import signal
import threading
from collections.abc import Callable

import pytest

from celery_dbbeat.observe.board import Board
from celery_dbbeat.observe.catalogue import ALL, OTHER, Metric

COUNTER = Metric("things_total", "counter", "Things.", "kind", ("good", OTHER))
GAUGE = Metric("level", "gauge", "A level.")
TIMES = Metric("wait_seconds", "histogram", "Waits.", buckets=(0.1, 1.0))


def numbers(board: Board) -> dict[tuple[str, str], list[float]]:
    return {(one.metric.name, one.value): list(one.numbers) for one in board.read()}


def forked(*jobs: Callable[[], None], end: int = 0) -> None:
    """Run each in a process of its own, which ends without a word."""
    children = []
    for job in jobs:
        child = os.fork()
        if not child:
            job()
            if end:
                os.kill(os.getpid(), end)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


@pytest.fixture
def board() -> Board:
    return Board((COUNTER, GAUGE, TIMES), rows=4)


def test_all_begins_at_zero(board: Board) -> None:
    assert numbers(board) == {
        ("things_total", "good"): [0],
        ("things_total", OTHER): [0],
        ("level", ""): [0],
        ("wait_seconds", ""): [0, 0, 0, 0],
    }


def test_counting(board: Board) -> None:
    board.add("things_total", "good")
    board.add("things_total", "good", 2)
    board.add("things_total", "never heard of", 5)
    board.set("level", 7)
    board.set("level", 3)
    found = numbers(board)
    assert found["things_total", "good"] == [3]
    assert found["things_total", OTHER] == [5]
    assert found["level", ""] == [3]


def test_a_time_on_the_border_belongs_below(board: Board) -> None:
    board.observe("wait_seconds", [0.05, 0.1, 0.5, 3.0])
    assert numbers(board)["wait_seconds", ""] == [2, 1, 1, pytest.approx(3.65)]


def test_what_is_not_in_the_catalogue_is_an_error(board: Board) -> None:
    with pytest.raises(KeyError):
        board.add("unknown_total")
    with pytest.raises(KeyError):
        board.add("level", "high")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("end", [0, signal.SIGKILL], ids=["ends", "is killed"])
def test_processes_count_in_rows_of_their_own(board: Board, end: int) -> None:
    def job(row: int) -> Callable[[], None]:
        def run() -> None:
            board.write_in_row(row)
            for _ in range(2000):
                board.add("things_total", "good")

        return run

    forked(*map(job, (1, 2, 3)), end=end)
    forked(job(1))  # the next in that place
    board.add("things_total", "good")
    assert numbers(board)["things_total", "good"] == [8001]


def test_threads_of_one_process_do_not_lose_a_count(board: Board) -> None:
    def run() -> None:
        for _ in range(5000):
            board.add("things_total", "good")
            board.observe("wait_seconds", [0.5])

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert numbers(board)["things_total", "good"] == [20_000]
    assert numbers(board)["wait_seconds", ""] == [0, 20_000, 0, 10_000]


def test_names_are_as_prometheus_wants_them() -> None:
    names = [metric.name for metric in ALL]
    assert len(set(names)) == len(names)
    for metric in ALL:
        assert metric.name.startswith("dbbeat_")
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert (
            bool(metric.buckets)
            == (metric.kind == "histogram")
            == (metric.kind != "gauge" and metric.name.endswith("_seconds"))
        )
        assert list(metric.buckets) == sorted(metric.buckets)
        assert (metric.label is None) == (metric.values == ("",))
        assert metric.help.endswith(".")
