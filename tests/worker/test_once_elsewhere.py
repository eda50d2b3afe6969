"""`once` in transactions that others began, by Django, and in another database."""

from collections.abc import Callable, Iterator
from uuid import UUID, uuid4

import django
import psycopg
import pytest
from django.conf import settings as django_settings
from django.db import connections, transaction
from sqlalchemy import Engine, make_url, text
from sqlalchemy.orm import Session

from celery_dbbeat import once
from celery_dbbeat.errors import AlreadyDone, SchemaError, StaleRun
from celery_dbbeat.store.migrate import migrate
from tests.support.postgres import psycopg_url
from tests.worker.desk import Desk
from tests.worker.places import PLACES, Place, psycopg_place, write_to


def forget_connections() -> None:
    """Close what is open; what other tests connected to is not this one's."""
    for connection in connections.all(initialized_only=True):
        connection.close()
        del connections[connection.alias]


@pytest.fixture
def django_database(database_url: str) -> Iterator[str]:
    url = make_url(database_url)
    given = {"ENGINE": "django.db.backends.postgresql", "NAME": url.database, "USER": url.username}
    given |= {"HOST": url.host, "PORT": str(url.port), "PASSWORD": url.password or ""}
    if not django_settings.configured:
        django_settings.configure(DATABASES={})
        django.setup()
    before = connections.settings
    forget_connections()
    connections.settings = connections.configure_settings({"default": given})
    yield "default"
    forget_connections()
    connections.settings = before


class TestJoining:
    """A transaction that was begun before is committed by who began it."""

    def test_the_outer_block_commits(self, desk: Desk, engine: Engine) -> None:
        task_id = uuid4()

        def task() -> None:
            with engine.begin() as connection:
                with once(connection):
                    write_to(connection, "joined")
                assert desk.effects() == []

        assert desk.deliver(task, task_id)[0] == "SUCCESS"
        run = desk.run_of(task_id)
        assert (run["status"], desk.effects()) == ("done", ["joined"])

    def test_so_does_a_sessions(self, desk: Desk, engine: Engine) -> None:
        task_id = uuid4()

        def task() -> None:
            with Session(engine) as session, session.begin(), once(session):
                write_to(session, "joined")

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
                    write_to(session, "autobegun")

        assert desk.deliver(task)[0] == "SUCCESS"
        assert desk.effects() == ["autobegun"]

    def test_a_commit_that_never_comes_is_no_success(self, desk: Desk, engine: Engine) -> None:
        task_id = uuid4()

        def task() -> None:
            with engine.connect() as connection:
                connection.execute(text("SELECT 1"))
                with once(connection):
                    write_to(connection, "forgotten")

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


def _forget_at_home(desk: Desk, task_id: UUID) -> None:
    desk.look.execute(
        "UPDATE dbbeat_dedup SET status = 'running', lease_until = now() - interval '1 s'"
        " WHERE task_id = %s",
        (task_id,),
    )


def _effects(url: str) -> list[str]:
    with psycopg.connect(psycopg_url(url)) as connection:
        return [row[0] for row in connection.execute("SELECT what FROM effect").fetchall()]
