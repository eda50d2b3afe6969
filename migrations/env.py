"""Run the migrations, once, however many machines ask for it at the same time.

Everything happens in one transaction that first takes an advisory lock of that transaction: the
second machine waits, then finds nothing left to do. No session state, so a pooler in transaction
mode is fine.
"""

from alembic import context
from sqlalchemy import Connection, text

VERSION_TABLE = "dbbeat_alembic_version"
# Of a database that only holds effects, and so only the table of runs.
DEDUP_VERSION_TABLE = "dbbeat_dedup_alembic_version"
LOCK = 0x_DBBEA7


def run(connection: Connection, schema: str | None, version_table: str) -> None:
    """Upgrade or downgrade inside the transaction that the caller began."""
    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
    if schema:
        connection.execute(text(f'CREATE SCHEMA IF NOT EXISTS "{schema}"'))
        connection.execute(text(f'SET LOCAL search_path = "{schema}"'))
    context.configure(
        connection=connection,
        version_table=version_table,
        version_table_schema=schema,
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes
run(
    given["connection"],
    given["schema"],
    DEDUP_VERSION_TABLE if given.get("dedup_only") else VERSION_TABLE,
)
