"""The command line as one piece: the same thing has the same name in every command."""

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from celery_dbbeat.cli import dbbeat

# What any letter stands for, wherever it is taken.
LETTERS = {
    "-n": {"--limit", "--count"},
    "-j": {"--json"},
    "-y": {"--yes"},
    "-l": {"--label"},
    "-s": {"--schedule"},
    "-f": {"--file"},
    "-o": {"--output"},
    "-w": {"--watch"},
    "-t": {"--traceback"},
}


def _leaves(group: click.Group) -> Iterator[click.Command]:
    for command in group.commands.values():
        if isinstance(command, click.Group):
            yield from _leaves(command)
        else:
            yield command


COMMANDS = list(_leaves(dbbeat))


def _options(command: click.Command) -> list[click.Option]:
    return [one for one in command.params if isinstance(one, click.Option)]


def _long(option: click.Option) -> str:
    return next(name for name in option.opts if name.startswith("--"))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: str(one.name))
def test_a_letter_means_the_same_everywhere(command: click.Command) -> None:
    for option in _options(command):
        assert option.help, option.opts
        for letter in set(option.opts) & set(LETTERS):
            assert _long(option) in LETTERS[letter]
        assert {one for one in option.opts if not one.startswith("--")} <= set(LETTERS)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: str(one.name))
def test_whatever_answers_does_so_in_json(command: click.Command) -> None:
    names = {_long(option) for option in _options(command)}
    # What these write is itself for programs.
    assert ("--json" in names) == (command.name not in {"export", "roles", "web-password", "web"})


@pytest.mark.parametrize("name", ["preview", "diff", "add", "edit"])
def test_when_is_said_in_the_same_words(name: str) -> None:
    given = {_long(option) for option in _options(dbbeat.commands[name])}
    when = {"--cron", "--crontab", "--interval", "--rrule", "--solar", "--once", "--timezone"}
    assert when <= given


def test_help_lists_every_command_once_and_whole() -> None:
    shown = CliRunner().invoke(dbbeat, ["--help"], terminal_width=80).output
    assert "..." not in shown.partition("\n")[2]
    listed = [line.split()[0] for line in shown.splitlines() if line.startswith("  ")]
    assert [name for name in dbbeat.commands if listed.count(name) != 1] == []
