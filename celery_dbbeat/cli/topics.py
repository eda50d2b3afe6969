"""A group whose help lists its commands by topic, in the order that people need them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

# No summary is cut: the lines are wrapped instead.
_WHOLE = 1000


class Topics(click.Group):
    """Commands under the headings that they were added with."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Begin without any."""
        super().__init__(*args, **kwargs)
        self._topics: dict[str, list[str]] = {}

    def add_topic(self, topic: str, commands: Iterable[click.Command]) -> None:
        """Add commands under a heading."""
        for command in commands:
            self.add_command(command)
            self._topics.setdefault(topic, []).append(str(command.name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, heading by heading."""
        for topic, names in self._topics.items():
            with formatter.section(topic):
                formatter.write_dl(
                    [
                        (name, command.get_short_help_str(_WHOLE))
                        for name in names
                        if (command := self.get_command(ctx, name)) is not None
                    ]
                )
