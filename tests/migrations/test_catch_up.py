"""Back from catching up and overlap, with something of each under way, and forth again."""

from contextlib import closing

import alembic.command
import psycopg
from sqlalchemy import NullPool, create_engine

from celery_dbbeat.store import migrate as module
from celery_dbbeat.store.migrate import migrate
from tests.support.services import psycopg_url

FILL = """
    INSERT INTO dbbeat_schedule (name, task, kind, expression, catch_up, catch_up_limit, overlap)
    VALUES ('late', 't', 'interval', '60', 'all', 5, 'allow'),
           ('waiting', 't', 'interval', '60', 'latest', NULL, 'buffer_one');
    UPDATE dbbeat_cursor SET replan_from = NULL, due_at = NULL, nominal_at = now(),
        waits_since = now(), waits_for = CASE WHEN schedule_id IN (
            SELECT id FROM dbbeat_schedule WHERE name = 'late') THEN 'turn' ELSE 'run' END;
    INSERT INTO dbbeat_tick (schedule_id, nominal_at, task_id, state, due_at, replica)
    SELECT id, now(), id, CASE name WHEN 'late' THEN 'overlapped' ELSE 'cancelled' END, now(), 'a'
    FROM dbbeat_schedule;
    INSERT INTO dbbeat_open (schedule_id, nominal_at, task_id)
    SELECT schedule_id, nominal_at, task_id FROM dbbeat_tick;
    INSERT INTO dbbeat_cancelled (task_id) SELECT task_id FROM dbbeat_tick;
"""


def test_what_waits_is_due_and_what_older_code_does_not_know_is_what_it_does(
    empty_database_url: str,
) -> None:
    migrate(empty_database_url)
    with closing(psycopg.connect(psycopg_url(empty_database_url), autocommit=True)) as plain:
        plain.execute(FILL)
        with create_engine(empty_database_url, poolclass=NullPool).begin() as connection:
            config = module._config()
            config.attributes.update(connection=connection, schema=None, dedup_only=False)
            alembic.command.downgrade(config, "0002")
        found = plain.execute("SELECT state FROM dbbeat_tick ORDER BY state")
        assert list(found) == [("coalesced",), ("sent",)]
        found = plain.execute("SELECT count(*) FROM dbbeat_cursor WHERE due_at IS NOT NULL")
        assert list(found) == [(2,)]
        plain.execute("UPDATE dbbeat_schedule SET expression = '30'")
        plain.execute("DELETE FROM dbbeat_schedule WHERE name = 'waiting'")
        migrate(empty_database_url)
        plain.execute("UPDATE dbbeat_schedule SET catch_up = 'all', overlap = 'skip'")
        assert list(plain.execute("SELECT waits_for FROM dbbeat_cursor")) == [(None,)]
