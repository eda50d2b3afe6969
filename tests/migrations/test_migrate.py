"""The tables come, stay and go, beside whatever else is in the database."""

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import alembic.command
import psycopg
import pytest
from sqlalchemy import NullPool, create_engine

from celery_dbbeat.errors import DatabaseUnavailable, SchemaError
from celery_dbbeat.store import migrate as module
from celery_dbbeat.store.database import Database
from celery_dbbeat.store.migrate import check, head, migrate
from tests.support.processes import Process
from tests.support.services import free_port, psycopg_url
from tests.support.waiting import wait_until

TABLES = {
    "dbbeat_alembic_version",
    "dbbeat_audit",
    "dbbeat_backfill",
    "dbbeat_cancelled",
    "dbbeat_cursor",
    "dbbeat_dedup",
    "dbbeat_lease",
    "dbbeat_open",
    "dbbeat_pace",
    "dbbeat_replica",
    "dbbeat_schedule",
    "dbbeat_tick",
    "dbbeat_worker",
}
MIGRATE = "import sys; from celery_dbbeat.store.migrate import migrate; print(migrate(sys.argv[1]))"
THREADS = """\
import sys
from concurrent.futures import ThreadPoolExecutor
from celery_dbbeat.store.migrate import migrate
with ThreadPoolExecutor(4) as pool:
    print(*pool.map(migrate, [sys.argv[1]] * 4))
"""
LOCK = 0x_DBBEA7


@pytest.fixture
def plain(empty_database_url: str) -> Iterator[psycopg.Connection]:
    """A connection to the empty database."""
    with closing(psycopg.connect(psycopg_url(empty_database_url), autocommit=True)) as connection:
        yield connection


@pytest.fixture
def store(empty_database_url: str) -> Iterator[Database]:
    with Database(empty_database_url, None, 5.0) as database:
        yield database


def ours(connection: psycopg.Connection, kind: str = "tables") -> set[str]:
    """What of ours is in the database, in any schema; partitions are left out."""
    look = {
        "tables": "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition"
        " AND relname LIKE 'dbbeat%'",
        "functions": "SELECT proname FROM pg_proc WHERE proname LIKE 'dbbeat%'",
        "rest": "SELECT relname FROM pg_class WHERE relname LIKE 'dbbeat%'",
    }
    return {str(name) for (name,) in connection.execute(look[kind])}


def downgrade(url: str, schema: str | None = None) -> None:
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        config = module._config()
        config.attributes.update(connection=connection, schema=schema)
        alembic.command.downgrade(config, "base")


def set_version(connection: psycopg.Connection, version: str) -> None:
    connection.execute("UPDATE dbbeat_alembic_version SET version_num = %s", [version])


class TestUpgrade:
    def test_on_an_empty_database(
        self, empty_database_url: str, plain: psycopg.Connection, store: Database
    ) -> None:
        assert migrate(empty_database_url) == head()
        assert ours(plain) == TABLES
        check(store)

    def test_again_changes_nothing(
        self, empty_database_url: str, plain: psycopg.Connection
    ) -> None:
        migrate(empty_database_url)
        look = "SELECT relname, oid, relfilenode FROM pg_class WHERE relname LIKE 'dbbeat%'"
        before = set(plain.execute(look))
        plain.execute(
            "INSERT INTO dbbeat_schedule (name, task, kind, expression)"
            " VALUES ('a', 't', 'interval', '60')"
        )
        assert migrate(empty_database_url) == head()
        assert set(plain.execute(look)) == before
        assert plain.execute("SELECT name FROM dbbeat_schedule").fetchall() == [("a",)]

    def test_several_threads_at_once(
        self, empty_database_url: str, plain: psycopg.Connection, tmp_path: Path
    ) -> None:
        """Alembic keeps its context in globals. In a child, for threads that hang never end."""
        process = Process([sys.executable, "-c", THREADS, empty_database_url], log=tmp_path / "log")
        assert process.wait() == 0, process.tail()
        assert process.log().split() == [head()] * 4
        assert ours(plain) == TABLES

    def test_several_processes_at_once(
        self, empty_database_url: str, plain: psycopg.Connection, tmp_path: Path
    ) -> None:
        """Held back by the lock until all of them wait for it."""
        plain.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        command = [sys.executable, "-c", MIGRATE, empty_database_url]
        running = [Process(command, log=tmp_path / f"{number}.log") for number in range(3)]
        wait_until(lambda: _waiting(plain) == 3, 30, "three waiting migrations")
        assert ours(plain) == set()
        plain.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
        assert [process.wait() for process in running] == [0, 0, 0]
        assert {process.log().strip() for process in running} == {head()}
        assert ours(plain) == TABLES

    def test_an_unreachable_server_is_told_in_our_words(self) -> None:
        with pytest.raises(DatabaseUnavailable) as error:
            migrate(f"postgresql+psycopg://me:s3cret@127.0.0.1:{free_port()}/none")
        assert "s3cret" not in str(error.value)


def _waiting(connection: psycopg.Connection) -> int:
    look = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    (row,) = connection.execute(look)
    return int(row[0])


class TestDowngrade:
    def test_everything_goes(self, empty_database_url: str, plain: psycopg.Connection) -> None:
        migrate(empty_database_url)
        plain.execute(
            "INSERT INTO dbbeat_schedule (name, task, kind, expression)"
            " VALUES ('a', 't', 'interval', '60')"
        )
        downgrade(empty_database_url)
        assert ours(plain) == {"dbbeat_alembic_version"}
        assert ours(plain, "functions") == set()
        assert ours(plain, "rest") <= {"dbbeat_alembic_version", "dbbeat_alembic_version_pkc"}

    def test_and_comes_back(self, empty_database_url: str, plain: psycopg.Connection) -> None:
        migrate(empty_database_url)
        downgrade(empty_database_url)
        migrate(empty_database_url)
        assert ours(plain) == TABLES

    def test_after_it_the_tables_are_missing(
        self, empty_database_url: str, store: Database
    ) -> None:
        migrate(empty_database_url)
        downgrade(empty_database_url)
        with pytest.raises(SchemaError, match="missing"):
            check(store)


class TestSchema:
    def test_the_schema_is_made_and_holds_everything(
        self, empty_database_url: str, plain: psycopg.Connection
    ) -> None:
        migrate(empty_database_url, "elsewhere")
        found = plain.execute("SELECT schemaname FROM pg_tables WHERE tablename LIKE 'dbbeat%'")
        assert {schema for (schema,) in found} == {"elsewhere"}
        found = plain.execute(
            "SELECT pronamespace::regnamespace::text FROM pg_proc WHERE proname LIKE 'dbbeat%'"
        )
        assert {schema for (schema,) in found} == {"elsewhere"}

    def test_a_schema_that_is_there_is_used(
        self, empty_database_url: str, plain: psycopg.Connection
    ) -> None:
        plain.execute("CREATE SCHEMA elsewhere")
        plain.execute("CREATE TABLE elsewhere.theirs ()")
        migrate(empty_database_url, "elsewhere")
        assert plain.execute("SELECT to_regclass('elsewhere.dbbeat_cursor')").fetchone() != (None,)

    def test_a_downgrade_leaves_the_schema_and_the_others_tables(
        self, empty_database_url: str, plain: psycopg.Connection
    ) -> None:
        migrate(empty_database_url, "elsewhere")
        migrate(empty_database_url)
        downgrade(empty_database_url, "elsewhere")
        found = plain.execute("SELECT schemaname FROM pg_tables WHERE tablename = 'dbbeat_cursor'")
        assert list(found) == [("public",)]


class TestBesideAnotherAlembic:
    def test_the_applications_version_is_not_touched(
        self, empty_database_url: str, plain: psycopg.Connection
    ) -> None:
        plain.execute("CREATE TABLE alembic_version (version_num varchar(32) PRIMARY KEY)")
        plain.execute("INSERT INTO alembic_version VALUES ('theirs')")
        migrate(empty_database_url)
        assert list(plain.execute("SELECT version_num FROM alembic_version")) == [("theirs",)]
        found = list(plain.execute("SELECT version_num FROM dbbeat_alembic_version"))
        assert found == [(head(),)]
        downgrade(empty_database_url)
        assert list(plain.execute("SELECT version_num FROM alembic_version")) == [("theirs",)]


class TestCheck:
    def test_missing_tables_are_told_with_the_command(self, store: Database) -> None:
        with pytest.raises(SchemaError) as error:
            check(store)
        assert "missing in schema 'public'" in str(error.value)
        assert "celery -A your_app dbbeat migrate" in str(error.value)
        assert "dbbeat_auto_migrate" in str(error.value)

    def test_missing_tables_are_told_with_the_schema_that_was_asked_for(
        self, empty_database_url: str
    ) -> None:
        migrate(empty_database_url)
        with (
            Database(empty_database_url, "elsewhere", 5.0) as store,
            pytest.raises(SchemaError, match="missing in schema 'elsewhere'"),
        ):
            check(store)

    def test_older_tables_are_told_with_both_versions(
        self, store: Database, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        migrate(empty_database_url)
        monkeypatch.setattr(module, "head", lambda: "9999")
        with pytest.raises(SchemaError) as error:
            check(store)
        assert "version 0003, this code needs 9999" in str(error.value)
        assert "celery -A your_app dbbeat migrate" in str(error.value)

    def test_newer_tables_are_accepted(
        self, store: Database, empty_database_url: str, plain: psycopg.Connection
    ) -> None:
        """In a rolling upgrade the old code runs on the new tables."""
        migrate(empty_database_url)
        set_version(plain, "9999")
        check(store)

    def test_an_old_server_is_refused(
        self, store: Database, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        migrate(empty_database_url)
        monkeypatch.setattr(module, "OLDEST_POSTGRES", 990000)
        with pytest.raises(SchemaError, match="allowed is 99 or newer"):
            check(store)
