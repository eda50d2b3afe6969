"""What SQL itself can check is refused with the name of the constraint."""

from typing import Any

import psycopg
import pytest

from tests.store.kit import Person

REFUSED = [
    ("name", "", "name_length"),
    ("name", "n" * 501, "name_length"),
    ("task", "", "task_length"),
    ("task", "t" * 501, "task_length"),
    ("kind", "weekly", "kind_known"),
    ("expression", "", "expression_length"),
    ("expression", "*" * 10_001, "expression_length"),
    ("timezone", "", "timezone_length"),
    ("timezone", "z" * 101, "timezone_length"),
    ("args", "{}", "args_is_array"),
    ("kwargs", "[]", "kwargs_is_object"),
    ("options", "[]", "options_is_object"),
    ("labels", "1", "labels_is_object"),
    ("state", "stopped", "state_known"),
    ("misfire_grace", "-1 second", "misfire_grace_range"),
    ("catch_up", "some", "catch_up_known"),
    ("overlap", "perhaps", "overlap_known"),
    ("jitter", "-1 second", "jitter_range"),
    ("jitter", "1 day 1 second", "jitter_range"),
    ("end_at", "2025-12-31 00:00+00", "end_after_start"),
    ("end_at", "2026-01-01 00:00+00", "end_after_start"),
    ("max_runs", "0", "max_runs_positive"),
    ("exclude", "{}", "exclude_is_array"),
    ("catch_up_limit", "0", "catch_up_limit_positive"),
    ("catch_up_limit", "10001", "catch_up_limit_range"),
    ("max_concurrent", "0", "max_concurrent_range"),
    ("pause_after", "0", "pause_after_positive"),
    ("owner", "nobody", "owner_known"),
    ("max_attempts", "0", "max_attempts_range"),
    ("max_attempts", "101", "max_attempts_range"),
    ("on_failure", "shrug", "on_failure_known"),
    ("resend_after", "0.9 seconds", "resend_after_range"),
    ("resend_after", "1 year 1 day", "resend_after_range"),
]
# Beyond what Python's datetime and timedelta, or any use, can hold.
OUT_OF_RANGE = [
    ("start_at", "1899-12-31 00:00+00"),
    ("start_at", "9001-01-02 00:00+00"),
    ("start_at", "infinity"),
    ("start_at", "-infinity"),
    ("end_at", "9001-01-02 00:00+00"),
    ("end_at", "infinity"),
    ("misfire_grace", "1001 years"),
]
MISSING = ["name", "task", "kind", "expression"]
NOT_NULL = ["timezone", "args", "kwargs", "options", "state", "catch_up", "overlap", "jitter"]


def insert(person: Person, **columns: Any) -> None:  # noqa: ANN401 - wrong ones, too
    person.add(**{"name": "one", "start_at": "2026-01-01 00:00+00", **columns})


@pytest.mark.parametrize(("column", "value", "constraint"), REFUSED)
def test_a_bad_value_is_refused(visitor: Person, column: str, value: str, constraint: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation) as refusal:
        insert(visitor, **{column: value})
    assert refusal.value.diag.constraint_name == f"dbbeat_schedule_{constraint}"


@pytest.mark.parametrize(("column", "value"), OUT_OF_RANGE)
def test_a_time_out_of_range_is_refused(visitor: Person, column: str, value: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation) as refusal:
        insert(visitor, **{column: value})
    assert str(refusal.value.diag.constraint_name).startswith(f"dbbeat_schedule_{column}")


def test_every_check_has_its_test(visitor: Person) -> None:
    found = visitor.do(
        "SELECT conname FROM pg_constraint"
        " WHERE conrelid = 'dbbeat_schedule'::regclass AND contype = 'c'"
    )
    ranges = {f"dbbeat_schedule_{column}_range" for column, _ in OUT_OF_RANGE}
    tested = {f"dbbeat_schedule_{constraint}" for _, _, constraint in REFUSED} | ranges
    assert {row["conname"] for row in found} - tested == set()


@pytest.mark.parametrize("column", MISSING + NOT_NULL)
def test_null_is_refused(visitor: Person, column: str) -> None:
    with pytest.raises(psycopg.errors.NotNullViolation) as refusal:
        insert(visitor, **{column: None})
    assert refusal.value.diag.column_name == column


def test_a_name_is_taken_once(visitor: Person) -> None:
    insert(visitor)
    with pytest.raises(psycopg.errors.UniqueViolation) as refusal:
        insert(visitor)
    assert refusal.value.diag.constraint_name == "dbbeat_schedule_name_key"


@pytest.mark.parametrize("column", ["misfire_grace", "start_at", "end_at", "max_runs"])
def test_null_means_without_a_limit(visitor: Person, column: str) -> None:
    insert(visitor, **{column: None})


@pytest.mark.parametrize(
    ("column", "constraint"), [("state", "state_known"), ("kind", "kind_known")]
)
def test_an_unknown_word_for_a_tick_is_refused(
    visitor: Person, column: str, constraint: str
) -> None:
    words = {"state": "recorded", "kind": "scheduled", column: "odd"}
    with pytest.raises(psycopg.errors.CheckViolation, match=f"dbbeat_tick_{constraint}"):
        visitor.do(
            "INSERT INTO dbbeat_tick (schedule_id, nominal_at, task_id, due_at, replica,"
            " state, kind) VALUES (gen_random_uuid(), now(), gen_random_uuid(), now(), 'a',"
            " %(state)s, %(kind)s)",
            words,
        )
