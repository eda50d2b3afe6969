"""What a task writes and the word that it is done are committed together, or not at all."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any
from uuid import UUID, uuid4

import django
import psycopg
import pytest
from celery import Celery
from django.conf import settings as django_settings
from django.db import connections, transaction
from sqlalchemy import Engine, NullPool, create_engine, make_url, text
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from celery_dbbeat import current_tick, once
from celery_dbbeat.errors import AlreadyDone, OnceError, SchemaError, StaleRun
from celery_dbbeat.store.migrate import migrate
from tests.support.postgres import psycopg_url
from tests.worker.desk import NOMINAL, Desk

Write = Callable[[str], None]
Place = Callable[[], AbstractContextManager[tuple[Any, Write]]]


@pytest.fixture
def desk(database_url: str) -> Iterator[Desk]:
    with closing(Desk(database_url)) as desk:
        yield desk


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = create_engine(database_url, poolclass=NullPool)
    yield engine
    engine.dispose()


@pytest.fixture
def django_database(database_url: str) -> Iterator[str]:
    url = make_url(database_url)
    given = {"ENGINE": "django.db.backends.postgresql", "NAME": url.database, "USER": url.username}
    given |= {"HOST": url.host, "PORT": str(url.port), "PASSWORD": url.password or ""}
    if not django_settings.configured:
        django_settings.configure(DATABASES={})
        django.setup()
    connections.settings = connections.configure_settings({"default": given})
    yield "default"
    connections["default"].close()
    del connections["default"]


def session_place(url: str) -> Place:
    @contextmanager
    def place() -> Iterator[tuple[Any, Write]]:
        with Session(create_engine(url, poolclass=NullPool)) as session:
            yield session, lambda what: _write(session, what)

    return place


def scoped_place(url: str) -> Place:
    @contextmanager
    def place() -> Iterator[tuple[Any, Write]]:
        scoped = scoped_session(sessionmaker(create_engine(url, poolclass=NullPool)))
        try:
            yield scoped, lambda what: _write(scoped, what)
        finally:
            scoped.remove()

    return place


def connection_place(url: str) -> Place:
    @contextmanager
    def place() -> Iterator[tuple[Any, Write]]:
        with create_engine(url, poolclass=NullPool).connect() as connection:
            yield connection, lambda what: _write(connection, what)

    return place


def psycopg_place(url: str) -> Place:
    @contextmanager
    def place() -> Iterator[tuple[Any, Write]]:
        with closing(psycopg.connect(psycopg_url(url))) as connection:
            yield connection, lambda what: _driver_write(connection, what)

    return place


def psycopg_autocommit_place(url: str) -> Place:
    @contextmanager
    def place() -> Iterator[tuple[Any, Write]]:
        with closing(psycopg.connect(psycopg_url(url), autocommit=True)) as connection:
            yield connection, lambda what: _driver_write(connection, what)

    return place


def _write(place: Any, what: str) -> None:  # noqa: ANN401 - whatever has execute()
    place.execute(text("INSERT INTO effect VALUES (:what)"), {"what": what})


def _driver_write(connection: psycopg.Connection[Any], what: str) -> None:
    connection.execute("INSERT INTO effect VALUES (%s)", (what,))


PLACES = [
    session_place, scoped_place, connection_place, psycopg_place, psycopg_autocommit_place,
]  # fmt: skip


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
            _write(connection, "lost")
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


class TestJoining:
    """A transaction that was begun before is committed by who began it."""

    def test_the_outer_block_commits(self, desk: Desk, engine: Engine) -> None:
        task_id = uuid4()

        def task() -> None:
            with engine.begin() as connection:
                with once(connection):
                    _write(connection, "joined")
                assert desk.effects() == []

        assert desk.deliver(task, task_id)[0] == "SUCCESS"
        run = desk.run_of(task_id)
        assert (run["status"], desk.effects()) == ("done", ["joined"])

    def test_so_does_a_sessions(self, desk: Desk, engine: Engine) -> None:
        task_id = uuid4()

        def task() -> None:
            with Session(engine) as session, session.begin(), once(session):
                _write(session, "joined")

        assert desk.deliver(task, task_id)[0] == "SUCCESS"
        run = desk.run_of(task_id)
        assert (run["status"], desk.effects()) == ("done", ["joined"])

    def test_what_a_session_began_by_itself_is_committed_here(
        self, desk: Desk, engine: Engine
    ) -> None:
        def task() -> None:
            with Session(engine) as session:
                session.execute(text("SELECT 1"))
                with once(session):
                    _write(session, "autobegun")

        assert desk.deliver(task)[0] == "SUCCESS"
        assert desk.effects() == ["autobegun"]

    def test_a_commit_that_never_comes_is_no_success(self, desk: Desk, engine: Engine) -> None:
        task_id = uuid4()

        def task() -> None:
            with engine.connect() as connection:
                connection.execute(text("SELECT 1"))
                with once(connection):
                    _write(connection, "forgotten")

        assert desk.deliver(task, task_id)[0] == "SUCCESS"
        run = desk.run_of(task_id)
        assert (run["status"], desk.effects()) == ("failed", [])
        assert "never committed" in run["error"]


class TestDjango:
    def test_effect_and_done_together(self, desk: Desk, django_database: str) -> None:
        task_id = uuid4()

        def task() -> None:
            with once(using=django_database), connections[django_database].cursor() as cursor:
                cursor.execute("INSERT INTO effect VALUES ('django')")
                assert desk.effects() == []

        assert desk.deliver(task, task_id)[0] == "SUCCESS"
        run = desk.run_of(task_id)
        assert (run["status"], desk.effects()) == ("done", ["django"])

    def test_a_late_finisher_rolls_back(self, desk: Desk, django_database: str) -> None:
        task_id = uuid4()

        def task() -> None:
            with once(using=django_database), connections[django_database].cursor() as cursor:
                cursor.execute("INSERT INTO effect VALUES ('late')")
                desk.lose(task_id)

        state, error = desk.deliver(task, task_id)
        assert (state, type(error), desk.effects()) == ("IGNORED", StaleRun, [])

    def test_it_joins_an_atomic_block(self, desk: Desk, django_database: str) -> None:
        def task() -> None:
            with transaction.atomic(using=django_database):
                with once(using=django_database), connections[django_database].cursor() as cursor:
                    cursor.execute("INSERT INTO effect VALUES ('joined')")
                assert desk.effects() == []

        assert desk.deliver(task)[0] == "SUCCESS"
        assert desk.effects() == ["joined"]


class TestAnotherDatabase:
    """The effects are in another Postgres than the schedules."""

    @pytest.fixture
    def elsewhere(self, empty_database_url: str) -> str:
        with psycopg.connect(psycopg_url(empty_database_url)) as connection:
            connection.execute("CREATE TABLE effect (what text)")
        return empty_database_url

    def test_without_a_table_there_it_says_how_to_make_one(
        self, desk: Desk, elsewhere: str
    ) -> None:
        def task() -> None:
            with psycopg_place(elsewhere)() as (target, write), once(target):
                write("lost")

        state, error = desk.deliver(task)
        assert (state, type(error)) == ("FAILURE", SchemaError)
        assert "migrate --dedup-only" in str(error)
        assert _effects(elsewhere) == []

    @pytest.mark.parametrize("make", PLACES)
    def test_a_tick_has_one_effect_there(
        self, desk: Desk, elsewhere: str, make: Callable[[str], Place]
    ) -> None:
        migrate(elsewhere, dedup_only=True)
        task_id = uuid4()

        def task() -> None:
            with make(elsewhere)() as (target, write), once(target):
                write("there")

        assert desk.deliver(task, task_id)[0] == "SUCCESS"
        run = desk.run_of(task_id)
        assert run["status"] == "done"
        # As if the worker had died between that commit and writing it down at home.
        _forget_at_home(desk, task_id)
        state, error = desk.deliver(task, task_id, attempt=2)
        assert (state, type(error)) == ("IGNORED", AlreadyDone)
        again = desk.run_of(task_id)
        assert (again["status"], again["attempt"]) == ("done", 2)
        assert _effects(elsewhere) == ["there"]


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


def _forget_at_home(desk: Desk, task_id: UUID) -> None:
    desk.look.execute(
        "UPDATE dbbeat_dedup SET status = 'running', lease_until = now() - interval '1 s'"
        " WHERE task_id = %s",
        (task_id,),
    )


def _effects(url: str) -> list[str]:
    with psycopg.connect(psycopg_url(url)) as connection:
        return [row[0] for row in connection.execute("SELECT what FROM effect").fetchall()]
