"""Runs, and what recovery needs to know of them."""

from pathlib import Path

from alembic import context, op

revision = "0002"
down_revision = "0001"

_HERE = Path(__file__).parent


def upgrade() -> None:
    """Run the SQL files beside this one; where only effects live, that of the runs alone."""
    _run("0002_dedup.sql")
    if not _dedup_only():
        _run("0002_recovery.sql")


def downgrade() -> None:
    """Drop what the upgrade made, the runs included; dead ticks become sent ones."""
    _run("0002_down_dedup.sql" if _dedup_only() else "0002_down.sql")


def _dedup_only() -> bool:
    return bool(context.config.attributes.get("dedup_only"))


def _run(name: str) -> None:
    op.get_bind().connection.cursor().execute((_HERE / name).read_text())
