"""The servers keep what they were told, whatever was done to them, and nothing is left of them."""

from collections.abc import Callable
from contextlib import closing

import kombu
import psycopg
import pytest
import redis as redis_client

from tests.support.family import family
from tests.support.server import ServerMissing, find_program
from tests.support.services import Databases, PgBouncer, Postgres, RabbitMQ, Redis, psycopg_url

ENDS: list[Callable[[Postgres], None]] = [Postgres.stop, Postgres.kill]


@pytest.mark.parametrize("end", ENDS)
def test_postgres_keeps_what_was_committed(
    own_postgres: Postgres, end: Callable[[Postgres], None]
) -> None:
    url = psycopg_url(own_postgres.url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        end(own_postgres)
        assert not family(own_postgres.process.pid)
        own_postgres.restart()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)


def test_a_paused_postgres_does_not_answer_until_it_is_resumed(own_postgres: Postgres) -> None:
    url = psycopg_url(own_postgres.url)
    own_postgres.pause()
    with pytest.raises(psycopg.errors.ConnectionTimeout):
        psycopg.connect(url, connect_timeout=2)
    own_postgres.resume()
    psycopg.connect(url, connect_timeout=10).close()


def test_a_killed_postgres_leaves_no_stopped_backend(own_postgres: Postgres) -> None:
    with psycopg.connect(psycopg_url(own_postgres.url)) as connection:
        backend = connection.info.backend_pid
        own_postgres.pause()
        own_postgres.kill()
    assert not family(backend)


def test_a_copy_of_a_database_has_its_tables_and_is_dropped_under_a_client(
    databases: Databases, empty_database_url: str
) -> None:
    with psycopg.connect(psycopg_url(empty_database_url), autocommit=True) as connection:
        connection.execute("CREATE TABLE copied ()")
        original = connection.info.dbname
    with closing(psycopg.connect(psycopg_url(databases.create("a_copy", original)))) as client:
        client.execute("TABLE copied")
        databases.drop("a_copy")
        with pytest.raises(psycopg.errors.AdminShutdown):
            client.execute("TABLE copied")


@pytest.mark.parametrize("end", [Redis.stop, Redis.kill])
def test_redis_keeps_what_it_was_told(own_redis: Redis, end: Callable[[Redis], None]) -> None:
    with redis_client.Redis.from_url(own_redis.url) as client:
        client.set("kept", 42)
        end(own_redis)
        own_redis.start()
        assert client.get("kept") == b"42"


def test_rabbitmq_keeps_persistent_messages_and_ends_its_port_mapper(
    own_rabbitmq: RabbitMQ,
) -> None:
    url = own_rabbitmq.fresh_url()
    _put(url, "kept")
    own_rabbitmq.kill()
    own_rabbitmq.start()
    assert _take(url) == "kept"
    own_rabbitmq.stop()
    assert not family(*own_rabbitmq.pids)


def test_virtual_hosts_are_apart_and_do_not_run_out(own_rabbitmq: RabbitMQ) -> None:
    made_at_the_start, made_later = own_rabbitmq.fresh_url(), own_rabbitmq.fresh_url()
    _put(made_at_the_start, "elsewhere")
    assert _take(made_later) is None


def test_pgbouncer_serves_several_clients_on_one_server_connection(empty_database_url: str) -> None:
    with PgBouncer(empty_database_url, pool_size=1) as pgbouncer:
        url = psycopg_url(pgbouncer.url)
        with psycopg.connect(url, autocommit=True) as one, psycopg.connect(url) as two:
            assert _backend(one) == _backend(two)


def test_a_missing_server_says_what_to_install() -> None:
    with pytest.raises(ServerMissing, match="apt-get install no-such-package"):
        find_program("no-such-program", "no-such-package")


def _backend(connection: psycopg.Connection) -> object:
    return connection.execute("SELECT pg_backend_pid()").fetchone()


def _put(url: str, body: str) -> None:
    with kombu.Connection(url, transport_options={"confirm_publish": True}) as connection:
        connection.SimpleQueue("queue").put(body)


def _take(url: str) -> str | None:
    with kombu.Connection(url) as connection:
        queue = connection.SimpleQueue("queue")
        try:
            message = queue.get(timeout=0.5)
        except queue.Empty:
            return None
        message.ack()
        return str(message.payload)
