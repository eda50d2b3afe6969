"""From a row to a task's result: beat, broker and a real worker, by pytest-celery's API.

DBBEAT_TEST_NODES=containers runs broker, backend and worker in containers, as pytest-celery does
by itself; without it they are local processes. The beats are local processes in both.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery.result import AsyncResult
from pytest_celery import (  # type: ignore[import-untyped]
    CeleryTestBackend,
    CeleryTestBroker,
    CeleryTestSetup,
    CeleryTestWorker,
)

from tests.acceptance.nodes import ServerContainer, local_worker
from tests.faults.cluster import Cluster, clean_environment
from tests.support.waiting import wait_until

IDENTITY = "pytest_celery.vendors.worker.tasks.identity"
ADD = """
    INSERT INTO dbbeat_schedule (name, task, kind, expression, args)
    VALUES ('whole', %(task)s, 'interval', '1', '[42]')
"""
SENT = "SELECT task_id FROM dbbeat_tick WHERE state = 'sent' ORDER BY nominal_at"

if os.environ.get("DBBEAT_TEST_NODES", "processes") == "processes":

    @pytest.fixture
    def celery_broker(redis_url: str) -> CeleryTestBroker:
        return CeleryTestBroker(ServerContainer(redis_url))

    @pytest.fixture
    def celery_backend(redis_url: str) -> CeleryTestBackend:
        return CeleryTestBackend(ServerContainer(redis_url))

    @pytest.fixture
    def celery_worker(tmp_path: Path, redis_url: str) -> Iterator[CeleryTestWorker]:
        urls = {"CELERY_BROKER_URL": redis_url, "CELERY_RESULT_BACKEND": redis_url}
        container = local_worker(tmp_path, clean_environment(**urls))
        worker = CeleryTestWorker(container, app=None)
        yield worker
        worker.teardown()


def test_each_tick_is_run_and_has_its_result(
    celery_setup: CeleryTestSetup, tmp_path: Path, database_url: str
) -> None:
    assert celery_setup.ready()
    with Cluster(tmp_path, database_url, celery_setup.app.conf.broker_url) as cluster:
        cluster.tables.rows(ADD, task=IDENTITY)
        cluster.start_and_wait(2)
        cluster.tables.wait_until_sent(1)
        cluster.kill(cluster.leader())
        celery_setup.worker.restart()
        cluster.tables.wait_until_sent(1)
        cluster.tables.settle()
        sent = [row["task_id"] for row in cluster.tables.rows(SENT)]
        assert len(sent) > 2
        for task_id in sent:
            result = AsyncResult(str(task_id), app=celery_setup.app)
            wait_until(result.ready, 20, f"the result of {task_id}")
            assert result.get() == 42
