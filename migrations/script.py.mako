"""${message}"""

from pathlib import Path

from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """Run the SQL file beside this one."""
    op.get_bind().connection.cursor().execute(Path(__file__).with_suffix(".sql").read_text())


def downgrade() -> None:
    """Going back is restoring a backup."""
    raise RuntimeError("there is no way back from this migration but a backup")
