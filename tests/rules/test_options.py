"""Options that no worker could use are refused by name, with what is allowed."""

from typing import Any

import pytest

from celery_dbbeat.errors import ScheduleError
from celery_dbbeat.rules.options import check_options


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("time_limit", "x"),
        ("time_limit", -1),
        ("time_limit", float("inf")),
        ("soft_time_limit", True),
        ("countdown", "10"),
        ("expires", "soon"),
        ("expires", []),
        ("eta", 5),
        ("eta", "never"),
        ("priority", "high"),
        ("priority", 256),
        ("retries", -1),
        ("headers", ["x"]),
        ("headers", {"id": "mine"}),
    ],
)
def test_each_by_its_name(name: str, value: object) -> None:
    with pytest.raises(ScheduleError, match=rf"^options\.{name} is .*; allowed is "):
        check_options({name: value})


def test_what_belongs_to_the_sending() -> None:
    with pytest.raises(ScheduleError, match="options has producer, task_id; allowed is"):
        check_options({"task_id": "mine", "producer": 1})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"queue": "slow", "priority": 0, "time_limit": 1.5, "soft_time_limit": 1},
        {"countdown": -5, "expires": 1e15},
        {"expires": "2030-01-01T00:00:00Z", "eta": "2030-01-01 09:00:00+01:00"},
        {"headers": {"tenant": 7}, "retries": 0},
        {"headers": None, "expires": None, "priority": None},
    ],
)
def test_what_apply_async_takes_is_allowed(options: dict[str, Any]) -> None:
    check_options(options)
