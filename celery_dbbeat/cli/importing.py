"""`dbbeat import …`: schedules from elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from celery_dbbeat.cli.files import import_file
from celery_dbbeat.cli.switching import COMMANDS


class Sources(click.Group):
    """What is no source's name is the path of a file."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The source's command, or that which reads a file."""
        if args and self.get_command(ctx, args[0]) is None:
            if args[0] != "-" and not Path(args[0]).exists():
                sources = ", ".join(self.list_commands(ctx))
                ctx.fail(f"{args[0]!r} does not exist; allowed is a file, or one of {sources}")
            return "file", import_file, args
        return super().resolve_command(ctx, args)


@click.group("import", cls=Sources, subcommand_metavar="SOURCE|FILE [ARGS]...")
def importing() -> None:
    """Take over schedules from elsewhere: a file that `export` wrote, or another beat.

    Of another beat: stop it, import, start this one; schedules go on from their last runs.
    Importing again changes nothing, unless something changed over there; what was changed here
    since stays as it is.
    """


for _command in (import_file, *COMMANDS):
    importing.add_command(_command)
