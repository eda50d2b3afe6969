"""Celery itself fails after the task has ended: what has run is not run again."""

from typing import Any
from uuid import uuid4

import psycopg
import pytest
from celery.exceptions import SoftTimeLimitExceeded

from celery_dbbeat import once
from celery_dbbeat.store import runs
from tests.support.server import LOOPBACK
from tests.support.services import free_port
from tests.support.waiting import wait_until
from tests.worker.desk import Desk

#: A warning of Celery's own, and an error only in tests.
outside_body = pytest.mark.filterwarnings("ignore:Exception raised outside body")


@pytest.fixture
def without_backend(desk: Desk) -> Desk:
    """The results of tasks cannot be stored."""
    desk.app.conf.task_ignore_result = False
    desk.app.conf.result_backend = f"redis://{LOOPBACK}:{free_port()}/0"
    policy = {"max_retries": 0, "timeout": 0.1}
    desk.app.conf.result_backend_transport_options = {"retry_policy": policy}
    return desk


def deliver(desk: Desk, body: Any) -> dict[str, Any]:  # noqa: ANN401 - any task
    """The row of the run, however the tracer fares."""
    task_id = uuid4()
    try:
        desk.deliver(body, task_id)
    except Exception as error:  # noqa: BLE001 - by version of Celery it raises or not
        print(error)
    return desk.run_of(task_id)


@outside_body
def test_a_result_that_cannot_be_stored_does_not_undo_a_success(without_backend: Desk) -> None:
    run = deliver(without_backend, lambda: "fine")
    assert (run["status"], run["result"]) == ("done", "SUCCESS")
    assert "Celery could not bring it to its end: " in run["error"]


@outside_body
def test_nor_make_one_of_a_failure(without_backend: Desk) -> None:
    def task() -> None:
        raise LookupError("no such customer")

    run = deliver(without_backend, task)
    assert (run["status"], run["result"]) == ("failed", "FAILURE")
    assert "LookupError: no such customer" in run["traceback"]


def test_a_time_limit_that_strikes_while_the_ending_is_written_down(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = runs.finish

    def struck(*args: Any) -> bool:  # noqa: ANN401 - as they come
        monkeypatch.setattr(runs, "finish", finish)
        raise SoftTimeLimitExceeded

    monkeypatch.setattr(runs, "finish", struck)
    task_id = uuid4()
    assert desk.deliver(lambda: "fine", task_id) == ("SUCCESS", "fine")
    wait_until(lambda: desk.run_of(task_id)["status"] == "done", message="the ending")


def test_an_error_whose_attributes_raise_is_a_failure_like_any_other(desk: Desk) -> None:
    class HostileError(Exception):
        @property
        def sqlstate(self) -> str:
            raise RuntimeError

    def task() -> None:
        with psycopg.connect(desk.look.info.dsn) as connection, once(connection):
            raise HostileError

    assert deliver(desk, task)["status"] == "failed"
