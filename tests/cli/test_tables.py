"""Tables on a terminal and in a pipe."""

import os
import shutil
import sys

import click
import pytest

from celery_dbbeat.cli import tables

ROWS: list[dict[str, str | None]] = [
    {"NAME": "a", "WHY": "x" * 50},
    {"NAME": "longer", "WHY": None},
]


def test_in_a_pipe_nothing_is_cut_or_coloured(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show(ROWS)
    assert capsys.readouterr().out.splitlines() == [
        "NAME    WHY",
        f"a       {'x' * 50}",
        "longer  -",
    ]


def test_on_a_terminal_the_head_is_bold_and_lines_end_at_its_edge(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((20, 24)))
    tables.show(ROWS)
    assert capsys.readouterr().out.splitlines() == [
        click.style("NAME    WHY", bold=True),
        f"a       {'x' * 11}…",
        "longer  -",
    ]


def test_on_a_terminal_a_long_name_leaves_room_for_what_follows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((80, 24)))
    tables.show([{"NAME": "x" * 500, "STATE": "paused"}])
    assert capsys.readouterr().out.splitlines()[1] == f"{'x' * 39}…  paused"


def test_without_rows_there_is_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show([])
    assert capsys.readouterr().out == ""


def test_what_has_no_form_in_json_is_refused() -> None:
    with pytest.raises(TypeError, match="has no form in JSON"):
        tables.as_json(object())
