"""What people get wrong in the form is told at its field, and nothing is written."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from celery_dbbeat.rules.trigger import KINDS
from tests.api.kit import Clerk
from tests.django.kit import ADD, BLANK, errors
from tests.support.bad_input import BAD_INPUT, MISSING, Bad


def typed(bad: Bad) -> dict[str, str] | None:
    """What somebody would type who means this; None: the form has no place for it."""
    values = {**BLANK}
    for name, value in bad.given.items():
        kind = name in KINDS
        if value is MISSING and name == "interval":
            values["expression"] = ""
            continue
        field = "expression" if kind else name
        if field not in BLANK:
            return None
        text = _text(BLANK[field], value)
        if text is None:
            return None
        values[field] = text
        if kind:
            values["kind"] = name
    return values


def _text(blank: str, value: Any) -> str | None:
    if blank.startswith(("[", "{")):
        return _json(value)
    if value is MISSING:
        return ""
    if isinstance(value, timedelta):
        return str(value.total_seconds())
    if isinstance(value, datetime):
        return value.isoformat() if value.tzinfo else None
    return str(value) if isinstance(value, str | int | float) and value is not True else None


def _json(value: object) -> str | None:
    if value is MISSING:
        return "[]"
    try:
        text = json.dumps(value)
    except TypeError:
        return None
    same: bool = json.loads(text) == value
    return text if same else None


CASES = [
    (bad, given)
    for bad in BAD_INPUT
    if (given := typed(bad)) is not None
    # Two fields of the form cannot be the same one, a blank queue is none, and
    # half a character cannot be sent; a number that is typed is a text.
    and bad.id not in {"two whens", "an empty queue", "kind alone", "name of half a character",
                       "name of a number", "description of a number"}
]  # fmt: skip


@pytest.fixture(scope="module")
def one_database(databases: Any, django_template: str) -> Any:
    name = "django_bad_input"
    yield databases.create(name, django_template)
    databases.drop(name)


@pytest.fixture
def database_url(one_database: str) -> Any:
    """One for all: nothing is written."""
    from django.contrib.auth.models import User
    from django.db import connections

    from tests.django.conftest import point

    point(one_database)
    User.objects.all().delete()
    yield one_database
    connections["default"].close()


def test_most_of_them_can_be_typed() -> None:
    assert len(CASES) >= 50


@pytest.mark.parametrize(("bad", "given"), CASES, ids=[bad.id for bad, _ in CASES])
def test_by_the_form(client: Client, clerk: Clerk, bad: Bad, given: Mapping[str, str]) -> None:
    refused = client.post(ADD, given)
    assert refused.status_code == 200, given
    field = "expression" if bad.field in KINDS else bad.field
    field = field if field in BLANK else "options"
    assert set(errors(refused)) == {field}
    assert clerk.value("SELECT count(*) FROM dbbeat_schedule") == 0
