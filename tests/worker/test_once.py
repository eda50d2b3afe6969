"""What a task writes and the word that it is done are committed together, or not at all."""

from collections.abc import Callable
from uuid import uuid4

import pytest
from celery import Celery
from sqlalchemy import Engine, text

from celery_dbbeat import current_tick, once
from celery_dbbeat.errors import OnceError, StaleRun
from tests.worker.desk import NOMINAL, Desk
from tests.worker.places import (
    PLACES,
    Place,
    connection_place,
    psycopg_place,
    session_place,
    write_to,
)


@pytest.fixture(params=PLACES, ids=lambda place: place.__name__)
def place(request: pytest.FixtureRequest, database_url: str) -> Place:
    made: Place = request.param(database_url)
    return made


def test_effect_and_done_are_committed_together(desk: Desk, place: Place) -> None:
    task_id = uuid4()

    def task() -> None:
        with place() as (target, write), once(target) as tick:
            write("bill")
            assert tick is not None
            assert (tick.schedule, tick.nominal, tick.task_id) == ("nightly", NOMINAL, str(task_id))
            assert (desk.run_of(task_id)["status"], desk.effects()) == ("running", [])

    assert desk.deliver(task, task_id)[0] == "SUCCESS"
    run = desk.run_of(task_id)
    assert (run["status"], run["result"], desk.effects()) == ("done", "SUCCESS", ["bill"])


def test_an_error_in_the_block_leaves_neither(desk: Desk, place: Place) -> None:
    task_id = uuid4()

    def task() -> None:
        with place() as (target, write), once(target):
            write("bill")
            raise LookupError("no such customer")

    assert desk.deliver(task, task_id)[0] == "FAILURE"
    run = desk.run_of(task_id)
    assert (run["status"], desk.effects()) == ("failed", [])


def test_a_late_finisher_rolls_back_and_is_stale(desk: Desk, place: Place) -> None:
    task_id = uuid4()

    def task() -> None:
        with place() as (target, write), once(target):
            write("late")
            desk.lose(task_id)

    state, error = desk.deliver(task, task_id)
    assert state == "IGNORED"
    assert isinstance(error, StaleRun)
    run = desk.run_of(task_id)
    assert (run["status"], run["worker"], desk.effects()) == ("running", "another", [])
    assert [one["status"] for one in run["earlier"]] == ["stale"]


def test_inside_itself_it_is_one(desk: Desk, place: Place) -> None:
    task_id = uuid4()

    def task() -> None:
        with place() as (target, write), once(target):
            with once(target):
                write("inner")
            assert desk.effects() == []
            write("outer")

    assert desk.deliver(task, task_id)[0] == "SUCCESS"
    assert desk.effects() == ["inner", "outer"]


def test_inside_one_on_another_connection_it_is_refused(desk: Desk, place: Place) -> None:
    def task() -> None:
        with (
            place() as (target, write),
            place() as (other, _),
            once(target),
        ):
            write("outer")
            with once(other):
                pass

    state, error = desk.deliver(task)
    # A scoped session is the same one however often it is asked for.
    if state == "FAILURE":
        assert isinstance(error, OnceError)
        assert "two cannot commit together" in str(error)
        assert desk.effects() == []


def test_a_second_time_after_it_is_done_is_refused(desk: Desk, place: Place) -> None:
    task_id = uuid4()

    def task() -> None:
        with place() as (target, write):
            with once(target):
                write("first")
            with once(target):
                write("second")

    state, error = desk.deliver(task, task_id)
    assert state == "FAILURE"
    assert isinstance(error, OnceError)
    run = desk.run_of(task_id)
    # The effect is there, so the tick is done, whatever the task did afterwards.
    assert (run["status"], run["result"], desk.effects()) == ("done", "FAILURE", ["first"])


def test_a_second_time_after_it_was_rolled_back_is_fine(desk: Desk, place: Place) -> None:
    def task() -> None:
        with place() as (target, write):
            try:
                with once(target):
                    write("first")
                    raise LookupError  # noqa: TRY301 - as a task's own code would
            except LookupError:
                with once(target):
                    write("second")

    assert desk.deliver(task)[0] == "SUCCESS"
    assert desk.effects() == ["second"]


def test_an_aborted_transaction_leaves_neither(desk: Desk, place: Place) -> None:
    task_id = uuid4()

    def task() -> None:
        with place() as (target, write), once(target):
            write("bill")
            try:
                write(None)  # type: ignore[arg-type]
                (
                    target.execute
                    if hasattr(target, "pgconn")
                    else lambda q: target.execute(text(q))
                )("SELECT 1 / 0")
            except Exception:  # noqa: BLE001, S110 - a task that goes on as if nothing had been
                pass

    assert desk.deliver(task, task_id)[0] == "FAILURE"
    run = desk.run_of(task_id)
    assert (run["status"] != "done", desk.effects()) == (True, [])


def test_what_the_server_refuses_is_a_failure_and_no_outage(desk: Desk, database_url: str) -> None:
    task_id = uuid4()

    def task() -> None:
        with connection_place(database_url)() as (target, _), once(target):
            target.execute(text("SET LOCAL statement_timeout = 50"))
            target.execute(text("SELECT pg_sleep(5)"))

    assert desk.deliver(task, task_id)[0] == "FAILURE"
    assert desk.run_of(task_id)["status"] == "failed"


def test_a_renewal_under_repeatable_read_says_what_is_wrong(desk: Desk, engine: Engine) -> None:
    task_id = uuid4()

    def task() -> None:
        strict = engine.execution_options(isolation_level="REPEATABLE READ")
        with strict.connect() as connection, once(connection):
            write_to(connection, "lost")
            desk.look.execute("UPDATE dbbeat_dedup SET lease_until = now() + interval '1 h'")

    state, error = desk.deliver(task, task_id)
    assert (state, type(error)) == ("FAILURE", OnceError)
    assert "allowed is READ COMMITTED" in str(error)
    assert (desk.run_of(task_id)["status"], desk.effects()) == ("failed", [])


def test_outside_of_a_tick_it_is_a_transaction_and_no_more(desk: Desk, place: Place) -> None:
    with place() as (target, write):
        with once(target) as tick:
            write("by hand")
        assert tick is None
        assert current_tick() is None
        with pytest.raises(LookupError), once(target):  # noqa: PT012 - the block is the subject
            write("never")
            raise LookupError
    assert desk.effects() == ["by hand"]


@pytest.mark.parametrize("make", [session_place, connection_place])
def test_a_block_that_commits_by_itself_is_told_so(
    desk: Desk, database_url: str, make: Callable[[str], Place]
) -> None:
    task_id = uuid4()

    def task() -> None:
        with make(database_url)() as (target, write), once(target):
            write("half")
            target.commit()

    state, error = desk.deliver(task, task_id)
    assert state == "FAILURE"
    assert "leave the commit" in str(error)
    run = desk.run_of(task_id)
    assert run["status"] == "failed"


def test_without_the_guard_the_message_is_enough(database_url: str, desk: Desk) -> None:
    app = Celery("bare", set_as_current=False)
    task_id = uuid4()
    header = {
        "schedule": "nightly", "nominal": NOMINAL.isoformat(), "kind": "scheduled", "attempt": 1,
    }  # fmt: skip

    @app.task(name="bare")  # type: ignore[untyped-decorator]
    def task() -> None:
        with psycopg_place(database_url)() as (target, write), once(target) as tick:
            assert tick is not None
            write("bare")

    for _ in range(2):
        task.apply(task_id=str(task_id), headers={"dbbeat": header})
    assert desk.effects() == ["bare"]


@pytest.mark.parametrize("wrong", [None, 7, "postgresql://…"])
def test_what_is_no_connection_is_refused(wrong: object) -> None:
    with pytest.raises(OnceError, match="allowed is a SQLAlchemy Session"), once(wrong):
        pass


def test_a_connection_in_autocommit_mode_is_refused(engine: Engine) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:  # noqa: SIM117 - two things
        with pytest.raises(OnceError, match="autocommit"), once(connection):
            pass
