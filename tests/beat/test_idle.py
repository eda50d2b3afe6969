"""What a replica asks of Postgres when there is nothing to do."""

from collections.abc import Iterator

import psycopg
import pytest

from celery_dbbeat.beat.replica import Replica
from celery_dbbeat.clock import monotonic
from celery_dbbeat.settings import Settings
from celery_dbbeat.store.database import DeadlineConnection
from tests.beat.conftest import MakeApp
from tests.support.services import psycopg_url

LEASE_TTL = 1.0
#: Less than one a second with the default lease of 10 s: what is asked goes with the lease's time.
ALLOWED_A_LEASE = 9


@pytest.fixture(params=[False, True], ids=["without the guard", "with the guard"])
def replica(
    request: pytest.FixtureRequest, make_app: MakeApp, database_url: str, redis_url: str
) -> Iterator[Replica]:
    given = {"url": database_url, "lease_ttl": LEASE_TTL, "guard": request.param}
    settings = Settings.read({f"dbbeat_{name}": value for name, value in given.items()}, {})
    replica = Replica(make_app(redis_url), settings, {})
    yield replica
    replica.close()


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement that is run from now on; BEGIN and COMMIT count, too."""
    seen: list[str] = []
    execute = DeadlineConnection.execute

    def counted(self: DeadlineConnection, query: str, *args: object, **kwargs: object) -> object:
        seen.extend(query.split("; ") if query.startswith("BEGIN") else [query])
        return execute(self, query, *args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(DeadlineConnection, "execute", counted)
    return seen


def run_for(replica: Replica, seconds: float) -> None:
    end = monotonic() + seconds
    while (left := end - monotonic()) > 0:
        replica.wait(min(left, replica.step()))


def test_it_is_less_than_one_statement_a_second(
    replica: Replica, database_url: str, statements: list[str]
) -> None:
    with psycopg.connect(psycopg_url(database_url), autocommit=True) as person:
        person.execute(
            "INSERT INTO dbbeat_schedule (name, task, kind, expression)"
            " VALUES ('yearly', 'work', 'cron', '0 0 29 2 *')"
        )
    run_for(replica, LEASE_TTL)
    assert statements, "the replica has to have started"
    statements.clear()
    leases = 3
    run_for(replica, leases * LEASE_TTL)
    # One renewal more or less may fall into the time that is watched.
    assert 0 < len(statements) <= (leases + 1) * ALLOWED_A_LEASE, statements


def test_a_cursor_that_somebody_holds_is_looked_at_now_and_then(
    replica: Replica, database_url: str, statements: list[str]
) -> None:
    """It stays due while a person's transaction is open: no reason to ask without a pause."""
    with psycopg.connect(psycopg_url(database_url), autocommit=True) as person:
        person.execute(
            "INSERT INTO dbbeat_schedule (name, task, kind, expression)"
            " VALUES ('each second', 'work', 'interval', '1')"
        )
        run_for(replica, LEASE_TTL)
        with person.transaction():
            person.execute("SELECT FROM dbbeat_cursor FOR UPDATE")
            run_for(replica, LEASE_TTL)  # by now it is due
            statements.clear()
            run_for(replica, LEASE_TTL)
            # BEGIN and its settings, claim, outlook and COMMIT, ten times a second.
            assert 0 < len(statements) <= 12 * 5 + ALLOWED_A_LEASE
        run_for(replica, LEASE_TTL)
        sent = person.execute("SELECT count(*) FROM dbbeat_tick WHERE state = 'sent'").fetchone()
        assert sent is not None
        assert sent[0] > 1
