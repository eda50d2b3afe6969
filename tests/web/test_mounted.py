"""In other apps, at any path: every link leads back into the pages."""

import re
from collections.abc import Iterator
from typing import Any, cast

import pytest
from a2wsgi import ASGIMiddleware
from celery import Celery
from fastapi import FastAPI
from flask import Flask
from httpx2 import Client, WSGITransport
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from celery_dbbeat import Schedules
from celery_dbbeat.contrib.web import create_app
from tests.web.conftest import SECRET
from tests.web.visitor import PASSWORDS, Visitor, form

AT = "/ops/schedules"


@pytest.fixture
def web(app: Celery, users: dict[str, str]) -> ASGIApp:
    return create_app(app, users=users, editors=["ada"], secret=SECRET)


def walk(visitor: Client, schedules: Schedules) -> None:
    """Log in, make a schedule, follow every link."""
    entered = visitor.get(AT, follow_redirects=True)
    assert entered.url.path == f"{AT}/login"
    values = form(entered, "/login") | {"name": "ada", "password": PASSWORDS["ada"]}
    page = visitor.post(f"{AT}/login", data=values, follow_redirects=True)
    assert page.url.path == f"{AT}/"
    assert all(f"Path={AT};" in one.headers["set-cookie"] for one in page.history)
    values = form(visitor.get(f"{AT}/new"), "/new")
    typed = {**values, "name": "a/b?c", "task": "shop.add", "args": "[1]"}
    page = visitor.post(f"{AT}/new", data=typed, follow_redirects=True)
    assert page.url.path == f"{AT}/schedule"
    assert schedules.get("a/b?c").task == "shop.add"
    links = {
        link.replace("&amp;", "&") for link in re.findall(r'(?:href|src)="([^"]+)"', page.text)
    }
    assert len(links) > 10
    for link in links:
        assert link.startswith(f"{AT}/"), link
        assert visitor.get(link, follow_redirects=True).status_code in {200, 405}, link


def test_in_fastapi(web: ASGIApp, schedules: Schedules) -> None:
    outer = FastAPI()
    outer.mount(AT, web)
    with Visitor(outer) as visitor:
        walk(visitor, schedules)


def test_in_starlette(web: ASGIApp, schedules: Schedules) -> None:
    with Visitor(Starlette(routes=[Mount(AT, web)])) as visitor:
        walk(visitor, schedules)


@pytest.fixture
def flask(web: ASGIApp) -> Iterator[Client]:
    outer = Flask("shop")
    outer.add_url_rule("/", view_func=lambda: "the shop")
    inner: Any = ASGIMiddleware(cast("Any", web))
    cast("Any", outer).wsgi_app = DispatcherMiddleware(outer.wsgi_app, {AT: inner})
    with Client(transport=WSGITransport(outer), base_url="http://shop") as client:
        yield client


def test_in_flask(flask: Client, schedules: Schedules) -> None:
    assert flask.get("/").text == "the shop"
    walk(flask, schedules)
