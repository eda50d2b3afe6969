"""The roles may do what beat, workers and managers do, and are refused the rest."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from celery import Celery
from psycopg import sql
from sqlalchemy import make_url

from celery_dbbeat import Schedules
from celery_dbbeat.store import housekeeping, leases, runs, schedules, statements, ticks, workers
from celery_dbbeat.store.database import Database
from celery_dbbeat.store.leases import Replica
from celery_dbbeat.store.migrate import check, migrate, roles
from celery_dbbeat.store.runs import Ending, Run
from celery_dbbeat.store.schedules import CodeSchedule
from tests.store.kit import TTL, Person, dispatch
from tests.support.services import Databases

SCHEMA = "elsewhere"
ROLES = ("dbbeat_beat", "dbbeat_worker", "dbbeat_manager")
NOON = datetime(2026, 1, 10, 12, tzinfo=timezone.utc)
ME = Replica("a", "host", 1, "0.1.0")
ENTRY = CodeSchedule("code", "t", "interval", "60", "UTC", "[]", "{}", "{}", "digest")

# Which statements are whose, by the files they stand in.
FILES = {
    "dbbeat_beat": [
        *("schema", "cursor", "tick", "awaited", "lease", "schedule", "pace", "overlap", "gauges"),
    ],
    "dbbeat_worker": ["dedup"],
    "dbbeat_manager": ["history", "manage", "status", "audit", "import"],
}
# In files that are shared: workers announce themselves, beat looks at them.
WORKERS_OWN = ["announce_worker", "forget_worker"]
# What people order, beat carries out.
ORDERS = ["orders", "backfill"]
BEATS_OWN = [
    "newest_endings",
    "pause_failing",
    "backfills_under_way",
    "lock_backfill",
    "lock_cursor",
    "backfilled_schedule",
    "known_ticks",
    "range_before",
    "own_under_way",
    "backfill_send",
    "backfill_again",
    "shorten_range",
    "set_range_aside",
    "move_backfill",
    "end_backfill",
]
# What a dry run looks at as well.
MANAGERS_TOO = ["known_ticks", "range_before"]
# Of a parameter without a value only the type counts; most are told by where they stand.
INTERVALS = r"now\(\) [-+] %\((\w+)\)s|retire\w*\(%\((\w+)\)s\)"

REFUSED = {
    "dbbeat_beat": [
        "INSERT INTO dbbeat_dedup (task_id) VALUES (NULL)",
        "UPDATE dbbeat_dedup SET status = 'done'",
        "DELETE FROM dbbeat_dedup",
        "SELECT dbbeat_go_on_from('{}', '{}')",
        "DELETE FROM dbbeat_tick",
        "UPDATE dbbeat_schedule SET name = 'other'",
        "UPDATE dbbeat_schedule SET owner = 'code'",
        "TRUNCATE dbbeat_schedule",
        "SELECT dbbeat_replay('{}')",
        "SELECT dbbeat_trigger('a')",
        "INSERT INTO dbbeat_backfill (schedule_id) VALUES (NULL)",
        "UPDATE dbbeat_alembic_version SET version_num = '0'",
        "DROP TABLE dbbeat_lease",
        "CREATE TABLE mine ()",
    ],
    "dbbeat_worker": [
        "SELECT FROM dbbeat_schedule",
        "SELECT FROM dbbeat_tick",
        "SELECT FROM dbbeat_cursor",
        "SELECT FROM dbbeat_lease",
        "SELECT FROM dbbeat_replica",
        "SELECT FROM dbbeat_open",
        "SELECT FROM dbbeat_pace",
        "DELETE FROM dbbeat_cancelled",
        "INSERT INTO dbbeat_cancelled (task_id) VALUES (NULL)",
        "DELETE FROM dbbeat_dedup",
        "TRUNCATE dbbeat_dedup",
        "SELECT dbbeat_replay('{}')",
        "SELECT dbbeat_trigger('a')",
        "SELECT FROM dbbeat_backfill",
        "SELECT dbbeat_make_partitions(1)",
        "SELECT dbbeat_retire('1 day')",
        "SELECT dbbeat_retire_audit('1 day')",
        "SELECT FROM dbbeat_audit",
        "CREATE TABLE mine ()",
    ],
    "dbbeat_manager": [
        "UPDATE dbbeat_cursor SET due_at = now()",
        "DELETE FROM dbbeat_cursor",
        "UPDATE dbbeat_tick SET state = 'recorded'",
        "INSERT INTO dbbeat_tick (task_id) VALUES (NULL)",
        "DELETE FROM dbbeat_tick",
        "UPDATE dbbeat_dedup SET status = 'failed'",
        "UPDATE dbbeat_backfill SET next_at = now()",
        "INSERT INTO dbbeat_backfill (open_ids) VALUES ('{}')",
        "DELETE FROM dbbeat_backfill",
        "UPDATE dbbeat_lease SET holder = 'me'",
        "DELETE FROM dbbeat_replica",
        "DELETE FROM dbbeat_worker",
        "UPDATE dbbeat_pace SET free_at = now()",
        "DELETE FROM dbbeat_open",
        "DELETE FROM dbbeat_cancelled",
        "SELECT dbbeat_make_partitions(1)",
        "SELECT dbbeat_retire('1 day')",
        "SELECT dbbeat_retire_audit('1 day')",
        "INSERT INTO dbbeat_audit (who) VALUES ('nobody')",
        "UPDATE dbbeat_audit SET who = 'somebody else'",
        "DELETE FROM dbbeat_audit",
        "TRUNCATE dbbeat_audit",
        "CREATE RULE mine AS ON INSERT TO dbbeat_schedule DO NOTHING",
        "CREATE TABLE mine ()",
    ],
}
STEAL = """
    CREATE TEMPORARY TABLE mine ();
    CREATE TRIGGER mine AFTER TRUNCATE ON mine EXECUTE FUNCTION dbbeat_schedule_truncated();
"""


@pytest.fixture(scope="module")
def owner_url(databases: Databases) -> Iterator[str]:
    """A database with the tables in a schema of their own, whose owner made the roles, twice."""
    name = f"dbbeat_test_{uuid4().hex}"
    url = databases.create(name)
    migrate(url, SCHEMA)
    with closing(Person(url)) as owner:
        had = {row["rolname"] for row in owner.do("SELECT rolname FROM pg_roles")}
        for _ in range(2):
            owner.connection.execute(roles(SCHEMA).encode())
    yield url
    databases.drop(name)
    with closing(Person(databases.url("postgres"))) as owner:
        for role in set(ROLES) - had:
            owner.connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


@pytest.fixture(scope="module")
def user_url(owner_url: str) -> Iterator[Callable[[str], str]]:
    """The URL of a user who can log in and has one of the roles."""
    with ExitStack() as stack:

        def make(role: str) -> str:
            name = f"{role}_{uuid4().hex}"
            owner = stack.enter_context(closing(Person(owner_url)))
            words = [sql.Identifier(name), sql.Literal(name), sql.Identifier(role)]
            owner.connection.execute(
                sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} IN ROLE {}").format(*words)
            )
            drop = sql.SQL("DROP ROLE {}").format(sql.Identifier(name))
            stack.callback(owner.connection.execute, drop)
            url = make_url(owner_url).set(username=name, password=name)
            return url.render_as_string(hide_password=False)

        urls = {role: make(role) for role in ROLES}
        yield urls.__getitem__


@pytest.fixture
def owner(owner_url: str) -> Iterator[Person]:
    with closing(Person(owner_url, SCHEMA)) as somebody:
        yield somebody
        somebody.do("DELETE FROM dbbeat_schedule")
        somebody.do("DELETE FROM dbbeat_tick")


def named(file: str) -> list[str]:
    text = (Path(statements.__file__).parent / f"{file}.sql").read_text()
    return re.findall(r"^-- name: (\w+)$", text, re.MULTILINE)


def whose() -> list[tuple[str, str]]:
    """Every statement with the role that runs it."""
    found = [(role, name) for role, files in FILES.items() for one in files for name in named(one)]
    return (
        found
        + [
            ("dbbeat_worker" if name in WORKERS_OWN else "dbbeat_beat", name)
            for name in named("worker")
        ]
        + [
            ("dbbeat_beat" if name in BEATS_OWN else "dbbeat_manager", name)
            for file in ORDERS
            for name in named(file)
        ]
    )


def test_every_statement_is_somebodys() -> None:
    assert sorted(name for _, name in whose()) == sorted(statements.load(None))


def explain(url: str, name: str) -> None:
    """Explaining a statement asks for the same rights as running it."""
    text = statements.load(SCHEMA)[name]
    intervals = {found for pair in re.findall(INTERVALS, text) for found in pair}
    values = {
        parameter: TTL if parameter in intervals else None
        for parameter in re.findall(r"%\((\w+)\)", text)
    }
    asked = text if text.startswith("LOCK") else f"EXPLAIN {text}"
    with (
        closing(Person(url)) as user,
        user.connection.transaction(force_rollback=True),
    ):
        user.connection.execute(asked.encode(), values or None)


@pytest.mark.parametrize(
    ("role", "name"), [*whose(), *(("dbbeat_manager", name) for name in MANAGERS_TOO)]
)
def test_a_statement_of_theirs(user_url: Callable[[str], str], role: str, name: str) -> None:
    explain(user_url(role), name)


@pytest.mark.parametrize("name", ["claim_due", "retire", "history", "mark_sent"])
def test_explaining_one_that_is_not_theirs_is_refused(
    user_url: Callable[[str], str], name: str
) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        explain(user_url("dbbeat_worker"), name)


@pytest.mark.parametrize(
    ("role", "statement"), [(role, one) for role, ones in REFUSED.items() for one in ones]
)
def test_what_is_not_theirs(user_url: Callable[[str], str], role: str, statement: str) -> None:
    with (
        closing(Person(user_url(role), SCHEMA)) as user,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        user.do(statement)


@pytest.mark.parametrize("role", ROLES)
def test_nobody_can_put_our_triggers_on_a_table_of_theirs(
    user_url: Callable[[str], str], role: str
) -> None:
    """These run with the owner's rights: one empties the cursors."""
    with (
        closing(Person(user_url(role), SCHEMA)) as user,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        user.connection.execute(STEAL)


def test_beat(user_url: Callable[[str], str], owner: Person) -> None:
    owner.add_due("one", "two")
    with Database(user_url("dbbeat_beat"), SCHEMA, 5.0) as store:
        check(store)
        leases.heartbeat(store, ME, ready=True, listener_pid=None, ttl=TTL)
        assert len(leases.acquire(store, ME.id, TTL, 1)) == 1
        with store.transaction() as transaction:
            leases.reslice(transaction, 2, "dbbeat_elsewhere")
        first, second = dispatch(store)
        assert ticks.mark_sent(store, [first]) == 1
        assert ticks.give_up(store, {second: "why"}) == 1
        for wanted in ({"code": ENTRY}, {}):
            with store.transaction() as transaction:
                schedules.sync_code(transaction, wanted)
        owner.do("DROP TABLE dbbeat_tick_default, dbbeat_dedup_default")
        owner.do("CREATE TABLE dbbeat_tick_default PARTITION OF dbbeat_tick DEFAULT")
        owner.do("CREATE TABLE dbbeat_dedup_default PARTITION OF dbbeat_dedup DEFAULT")
        assert store.run("make_partitions", days=9).one()["made"] == 4
        housekeeping.keep(store, timedelta(days=1))
        leases.leave(store, ME.id, "dbbeat_elsewhere")


def test_a_worker(user_url: Callable[[str], str], owner: Person) -> None:
    with Database(user_url("dbbeat_worker"), SCHEMA, 5.0) as store:
        workers.announce(store, "celery@one", workers.Reading(["celery"]), "0.1.0")
        run = runs.take(store, Run(uuid4(), NOON, "nightly", 1, 0, "celery@one"), TTL)
        assert run is not None
        runs.renew(store, [run], TTL)
        assert runs.finish(store, run, Ending("done", "SUCCESS"))
        assert runs.is_done(store, run)
        workers.forget(store, "celery@one")


def test_a_manager(user_url: Callable[[str], str], owner: Person) -> None:
    app = Celery("shop", broker="memory://", set_as_current=False)
    app.conf.update(dbbeat_url=user_url("dbbeat_manager"), dbbeat_schema=SCHEMA)
    managed = Schedules(app)
    with closing(Person(user_url("dbbeat_manager"), SCHEMA)) as manager:
        identity = manager.add("nightly")
        manager.do("UPDATE dbbeat_schedule SET state = 'paused'")
        assert manager.cursor(identity)["version"] == 2
        owner.do(
            "INSERT INTO dbbeat_tick (schedule_id, nominal_at, task_id, state, due_at, replica)"
            " SELECT id, now(), id, 'dead', now(), 'a' FROM dbbeat_schedule"
        )
        assert [letter.task_id for letter in managed.dead()] == [identity]
        managed.replay(identity)
        assert [entry.state for entry in managed.history("nightly")] == ["recorded"]
        managed.resume("nightly")
        managed.trigger("nightly", args=[1])
        ordered = managed.backfill("nightly", NOON, NOON, force=True)
        assert managed.stop_backfill(ordered.id).state == "stopped"
        manager.do("DELETE FROM dbbeat_schedule")
        manager.add("nightly")
        manager.do("TRUNCATE dbbeat_schedule")
        assert manager.do("SELECT * FROM dbbeat_cursor") == []
