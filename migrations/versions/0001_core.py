"""Schedules, cursors, ticks, leases and replicas."""

from pathlib import Path

from alembic import context, op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Run the SQL file beside this one; where only effects live, none of it is needed."""
    if context.config.attributes.get("dedup_only"):
        return
    op.get_bind().connection.cursor().execute(Path(__file__).with_suffix(".sql").read_text())


def downgrade() -> None:
    """Drop everything that the upgrade made, schedules and history included."""
    if context.config.attributes.get("dedup_only"):
        return
    op.get_bind().connection.cursor().execute(
        "DROP TABLE dbbeat_schedule, dbbeat_cursor, dbbeat_tick, dbbeat_lease, dbbeat_replica;"
        "DROP FUNCTION dbbeat_schedule_revise, dbbeat_schedule_inserted, dbbeat_schedule_updated,"
        " dbbeat_schedule_deleted, dbbeat_schedule_truncated, dbbeat_make_partitions"
    )
