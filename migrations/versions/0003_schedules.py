"""Schedules as people manage them: all kinds and policies, orders, who changed what."""

from pathlib import Path

from alembic import context, op

revision = "0003"
down_revision = "0002"

_HERE = Path(__file__).parent
_PARTS = ("columns", "catch_up", "orders", "audit", "views", "rights")


def upgrade() -> None:
    """Run the SQL files beside this one; where only effects live there is nothing to do."""
    if not _dedup_only():
        for part in _PARTS:
            _run(f"0003_{part}.sql")


def downgrade() -> None:
    """Drop what the upgrade made; what older code does not know becomes what it does."""
    if not _dedup_only():
        _run("0003_down.sql")


def _dedup_only() -> bool:
    return bool(context.config.attributes.get("dedup_only"))


def _run(name: str) -> None:
    op.get_bind().connection.cursor().execute((_HERE / name).read_text())
