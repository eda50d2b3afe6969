"""Migration 0002: from 0001 with rows and back, and by itself where only effects live."""

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import alembic.command
import psycopg
import pytest
from alembic.config import Config
from sqlalchemy import NullPool, create_engine

from celery_dbbeat.store import migrate as module
from celery_dbbeat.store.database import Database
from celery_dbbeat.store.migrate import check, head, migrate
from tests.support.processes import Process
from tests.support.services import psycopg_url
from tests.support.waiting import wait_until

ALONE = {"dbbeat_dedup", "dbbeat_dedup_alembic_version"}
FUNCTIONS = {"dbbeat_make_partitions", "dbbeat_retire"}
MIGRATE = """\
import sys
from celery_dbbeat.store.migrate import migrate
print(migrate(sys.argv[1], dedup_only=True))
"""
LOCK = 0x_DBBEA7
ADD = (
    "INSERT INTO dbbeat_schedule (name, task, kind, expression) VALUES ('a', 't', 'interval', '60')"
)
TICK = (
    "INSERT INTO dbbeat_tick (schedule_id, nominal_at, task_id, state, due_at, replica)"
    " SELECT id, now() + %s * interval '1 day', gen_random_uuid(), %s, now(), 'r'"
    " FROM dbbeat_schedule"
)
RUN = (
    "INSERT INTO dbbeat_dedup (task_id, nominal_at, schedule, status, attempt, worker, lease_until)"
    " VALUES (gen_random_uuid(), now(), 'a', 'done', 1, 'w', now())"
)
DEFINERS = (
    "SELECT proname FROM pg_proc WHERE proname LIKE 'dbbeat%' AND prosecdef AND"
    " proconfig::text LIKE '%pg_temp%' AND NOT has_function_privilege('public', oid, 'execute')"
)

# These look at no table, and what they do anybody may do.
HELPERS = {"dbbeat_actor", "dbbeat_audited", "dbbeat_laid_over", "dbbeat_when_columns"}


@pytest.fixture
def plain(empty_database_url: str) -> Iterator[psycopg.Connection]:
    """A connection to the empty database."""
    with closing(psycopg.connect(psycopg_url(empty_database_url), autocommit=True)) as connection:
        yield connection


def move(url: str, command: Callable[[Config, str], None], to: str, *, alone: bool) -> None:
    with create_engine(url, poolclass=NullPool).begin() as connection:
        config = module._config()
        config.attributes.update(connection=connection, schema=None, dedup_only=alone)
        command(config, to)


def up(url: str, to: str) -> None:
    move(url, alembic.command.upgrade, to, alone=False)


def down(url: str, to: str, *, dedup_only: bool = False) -> None:
    move(url, alembic.command.downgrade, to, alone=dedup_only)


def tables(connection: psycopg.Connection) -> set[str]:
    look = (
        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition"
        " AND relname LIKE 'dbbeat%'"
    )
    return {str(name) for (name,) in connection.execute(look)}


def functions(connection: psycopg.Connection, look: str | None = None) -> set[str]:
    every = "SELECT proname FROM pg_proc WHERE proname LIKE 'dbbeat%'"
    return {str(name) for (name,) in connection.execute((look or every).encode())}


class TestFromTheFirst:
    def test_rows_stay_and_are_not_awaited(
        self, empty_database_url: str, plain: psycopg.Connection
    ) -> None:
        up(empty_database_url, "0001")
        plain.execute(ADD)
        for day, state in [(-300, "sent"), (0, "recorded"), (1, "missed"), (300, "coalesced")]:
            plain.execute(TICK, [day, state])
        migrate(empty_database_url)
        found = plain.execute(
            "SELECT state, awaited, outcome, losses FROM dbbeat_tick ORDER BY nominal_at"
        )
        assert list(found) == [
            (state, False, None, 0) for state in ("sent", "recorded", "missed", "coalesced")
        ]
        found = plain.execute("SELECT max_attempts, on_failure, resend_after FROM dbbeat_schedule")
        assert list(found) == [(None, "dead", None)]
        assert list(plain.execute("SELECT action, after FROM dbbeat_audit")) == [("found", None)]
        plain.execute("UPDATE dbbeat_schedule SET overlap = 'skip'")
        assert list(plain.execute("SELECT version FROM dbbeat_cursor")) == [(2,)]

    def test_what_runs_with_its_owners_rights_is_nobodys_to_misuse(
        self, empty_database_url: str, plain: psycopg.Connection
    ) -> None:
        """All of it: no function is left that acts for a caller with other names in its path."""
        migrate(empty_database_url)
        assert functions(plain, DEFINERS) == functions(plain) - HELPERS


class TestBack:
    def test_to_the_first_with_rows_of_every_new_kind(
        self, empty_database_url: str, plain: psycopg.Connection
    ) -> None:
        migrate(empty_database_url)
        plain.execute(ADD)
        plain.execute("UPDATE dbbeat_schedule SET overlap = 'buffer_one', max_attempts = 5")
        plain.execute(TICK, [0, "dead"])
        plain.execute(TICK, [-300, "sent"])
        plain.execute("UPDATE dbbeat_tick SET kind = 'manual', awaited = true, outcome = 'failed'")
        plain.execute(RUN)
        down(empty_database_url, "0001")
        assert "dbbeat_dedup" not in tables(plain)
        assert functions(plain, DEFINERS) == set()
        found = plain.execute("SELECT state, kind FROM dbbeat_tick")
        assert list(found) == [("sent", "scheduled")] * 2
        plain.execute("UPDATE dbbeat_schedule SET state = 'paused'")
        assert list(plain.execute("SELECT dbbeat_make_partitions(8)")) == [(1,)]

    def test_what_was_detached_goes_as_well(
        self, empty_database_url: str, plain: psycopg.Connection
    ) -> None:
        migrate(empty_database_url)
        plain.execute("CREATE TABLE dbbeat_dedup_20200101 (LIKE dbbeat_dedup)")
        down(empty_database_url, "0001")
        assert "dbbeat_dedup_20200101" not in tables(plain)

    def test_and_again(self, empty_database_url: str, plain: psycopg.Connection) -> None:
        migrate(empty_database_url)
        before = tables(plain), functions(plain)
        down(empty_database_url, "0001")
        migrate(empty_database_url)
        assert (tables(plain), functions(plain)) == before


class TestDedupOnly:
    def test_just_the_table_of_runs(
        self, empty_database_url: str, plain: psycopg.Connection
    ) -> None:
        assert migrate(empty_database_url, dedup_only=True) == head()
        assert tables(plain) == ALONE
        assert functions(plain) == FUNCTIONS
        plain.execute(RUN)
        assert list(plain.execute("SELECT dbbeat_make_partitions(8)")) == [(1,)]
        assert list(plain.execute("SELECT dbbeat_retire('1 day')")) == [(None,)]

    def test_in_a_schema_of_its_own(
        self, empty_database_url: str, plain: psycopg.Connection
    ) -> None:
        migrate(empty_database_url, "elsewhere", dedup_only=True)
        found = plain.execute("SELECT schemaname FROM pg_tables WHERE tablename LIKE 'dbbeat%'")
        assert {schema for (schema,) in found} == {"elsewhere"}

    def test_twice_is_fine(self, empty_database_url: str, plain: psycopg.Connection) -> None:
        migrate(empty_database_url, dedup_only=True)
        plain.execute(RUN)
        assert migrate(empty_database_url, dedup_only=True) == head()
        assert list(plain.execute("SELECT count(*) FROM dbbeat_dedup")) == [(1,)]

    def test_several_at_once(
        self, empty_database_url: str, plain: psycopg.Connection, tmp_path: Path
    ) -> None:
        """Held back by the lock until all of them wait for it."""
        plain.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        command = [sys.executable, "-c", MIGRATE, empty_database_url]
        running = [Process(command, log=tmp_path / f"{number}.log") for number in range(3)]
        wait_until(lambda: _waiting(plain) == 3, 30, "three waiting migrations")
        plain.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
        assert [process.wait() for process in running] == [0, 0, 0]
        assert tables(plain) == ALONE

    def test_everything_can_follow(
        self, empty_database_url: str, plain: psycopg.Connection
    ) -> None:
        migrate(empty_database_url, dedup_only=True)
        plain.execute(RUN)
        migrate(empty_database_url)
        with Database(empty_database_url, None, 5.0) as store:
            check(store)
        assert tables(plain) > ALONE
        assert list(plain.execute("SELECT count(*) FROM dbbeat_dedup")) == [(1,)]
        assert functions(plain, DEFINERS) == functions(plain) - HELPERS

    def test_where_everything_is_it_changes_nothing(
        self, empty_database_url: str, plain: psycopg.Connection
    ) -> None:
        migrate(empty_database_url)
        before = tables(plain)
        migrate(empty_database_url, dedup_only=True)
        assert tables(plain) == before | ALONE

    def test_it_goes_again(self, empty_database_url: str, plain: psycopg.Connection) -> None:
        migrate(empty_database_url, dedup_only=True)
        down(empty_database_url, "base", dedup_only=True)
        assert tables(plain) == {"dbbeat_dedup_alembic_version"}
        assert functions(plain) == set()


def _waiting(connection: psycopg.Connection) -> int:
    look = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    (row,) = connection.execute(look)
    return int(row[0])
