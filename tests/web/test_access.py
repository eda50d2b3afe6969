"""Who gets in, who may write, and what a stranger's page cannot have them do."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from celery import Celery
from starlette.requests import Request

from celery_dbbeat import Schedules
from celery_dbbeat.contrib.web import Passwords, User, create_app, hash_password
from celery_dbbeat.contrib.web.app import _PAGES, _WRITES
from celery_dbbeat.contrib.web.session import COOKIE
from celery_dbbeat.errors import SettingsError
from tests.web.conftest import SECRET
from tests.web.visitor import PASSWORDS, Visitor

GUARDED = [(path, role) for path, _, role in _PAGES if role != "anybody"]
WRITES = [(path, role) for path, _, role in _WRITES if role != "anybody"]


def test_strangers_see_no_page_and_write_nothing(stranger: Visitor) -> None:
    for path, _ in GUARDED:
        page = stranger.look(path, name="bills")
        assert page.url.path == "/login"
        assert page.url.params["next"] == f"{path}?name=bills"
    for path, _ in WRITES:
        assert stranger.submit(path, name="bills").url.path == "/login"


def test_readers_write_nothing(bob: Visitor, schedules: Schedules) -> None:
    schedules.create("bills", "shop.add", cron="@daily", args=[1])
    for path, _ in WRITES:
        page = bob.submit(path, 403, name="bills", original="bills", version="1", all="1")
        assert "bob may look, but not write" in page.text
    assert schedules.get("bills").version == 1


def test_readers_read_and_are_offered_nothing_else(bob: Visitor, schedules: Schedules) -> None:
    schedules.create("bills", "shop.add", cron="@daily", args=[1])
    for path, role in GUARDED:
        page = bob.look(path, 200 if role == "reader" else 403, name="bills")
        forms = re.findall(r'<form method="post" action="([^"]+)"', page.text)
        assert set(forms) - {"/replay"} <= {"/logout"}, path
    assert "<button" not in bob.look("/dead").text.split("<main>")[1]


def test_without_its_token_nothing_is_written(ada: Visitor, schedules: Schedules) -> None:
    schedules.create("bills", "shop.add", cron="@daily", args=[1])
    for path, _ in WRITES:
        for token in ({}, {"csrf": ""}, {"csrf": "wrong"}, {"csrf": "ü"}):
            page = ada.post(path, data={**token, "name": "bills", "version": "1"})
            assert page.status_code == 403
            assert "comes from elsewhere" in page.text
    assert [one.version for one in schedules.list()] == [1]


def test_nothing_is_written_by_a_link(ada: Visitor, schedules: Schedules) -> None:
    schedules.create("bills", "shop.add", cron="@daily", args=[1])
    for path, _ in WRITES:
        page = ada.get(path, params={"csrf": ada.token(), "name": "bills", "version": "1"})
        assert page.status_code in {200, 405}
    assert [one.version for one in schedules.list()] == [1]


def test_the_token_of_another_is_of_no_use(ada: Visitor, bob: Visitor) -> None:
    page = ada.post("/trigger", data={"csrf": bob.token(), "name": "bills"})
    assert page.status_code == 403


def test_a_wrong_password(stranger: Visitor) -> None:
    for name, password in (("ada", "x"), ("ada", ""), ("nobody", "x"), ("ada", "x" * 2000)):
        page = stranger.submit("/login", 403, name=name, password=password)
        assert "There is no such user with that password" in page.text
    assert stranger.look("/").url.path == "/login"


def test_a_log_in_leads_to_the_page_that_was_wanted_and_nowhere_else(stranger: Visitor) -> None:
    ada: dict[str, Any] = {"name": "ada", "password": PASSWORDS["ada"]}
    assert stranger.submit("/login", **ada, next="/dead?name=").url.path == "/dead"
    for elsewhere in ("//evil.example/", "https://evil.example/", "/\\evil.example", "/\n/evil"):
        page = stranger.submit("/login", **ada, next=elsewhere)
        assert (page.url.host, page.url.path) == ("testserver", "/")


def test_a_log_in_begins_a_new_session(stranger: Visitor) -> None:
    before = stranger.token()
    stranger.log_in("ada")
    assert stranger.token() != before
    stranger.submit("/logout")
    assert stranger.look("/").url.path == "/login"


def test_the_cookie_is_for_this_server_alone(stranger: Visitor) -> None:
    said = stranger.get("/login").headers["set-cookie"]
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(said.split("; "))
    assert "Secure" not in said
    assert "Secure" in stranger.get("https://testserver/login").headers["set-cookie"]


def test_a_cookie_that_was_made_up_is_not_believed(
    ada: Visitor, app: Celery, users: dict[str, str]
) -> None:
    known = ada.cookies[COOKIE]
    said, _, signature = known.rpartition(".")
    other_one = ("A" if signature[0] != "A" else "B") + signature[1:]
    for made_up in (f"{said}.{other_one}", f"x{known}", "x", "e30.x.y"):
        ada.cookies.clear()
        ada.cookies.set(COOKIE, made_up)
        assert ada.look("/").url.path == "/login"
    other = create_app(app, users=users, secret=SECRET[::-1])
    with Visitor(other, cookies={COOKIE: known}) as visitor:
        assert visitor.look("/").url.path == "/login"


def test_who_is_no_user_any_more_is_out(ada: Visitor, app: Celery, users: dict[str, str]) -> None:
    left = create_app(app, users={"bob": users["bob"]}, secret=SECRET)
    with Visitor(left, cookies={COOKIE: ada.cookies[COOKIE]}) as visitor:
        assert visitor.look("/").url.path == "/login"


def test_every_answer_says_what_browsers_must_not_do(ada: Visitor) -> None:
    for path in ("/", "/login", "/nothing", "/static/style.css", "/schedule?name=nobody"):
        headers = ada.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"


def test_no_page_has_a_script_or_a_style_in_it(ada: Visitor, schedules: Schedules) -> None:
    schedules.create("bills", "shop.add", cron="@daily", args=[1])
    for path, _ in GUARDED:
        text = ada.look(path, name="bills").text
        assert re.findall(r"<script(?! defer src=)|<style|\sstyle=|\son\w+=", text) == []


def test_too_much_is_not_read(ada: Visitor) -> None:
    assert ada.post("/new", data={"name": "x" * (1 << 20)}).status_code == 413
    many = "&".join(["a=b"] * 3000)
    assert ada.post("/new", content=many).status_code == 403
    assert ada.post("/new", content=b"\xff\xfe").status_code == 403


class TestInsecure:
    def test_only_this_machine_by_its_own_name(self, app: Celery) -> None:
        served = create_app(app, insecure=True, secret=SECRET)
        for client, host, status in (
            ("127.0.0.1", "localhost:8585", 200),
            ("127.0.0.1", "127.0.0.1", 200),
            ("::1", "[::1]:8585", 200),
            ("10.0.0.7", "localhost", 403),
            ("127.0.0.1", "evil.example", 403),
            ("127.0.0.1", "localhost.evil.example", 403),
        ):
            with Visitor(served, base_url=f"http://{host}", client=(client, 1)) as somebody:
                page = somebody.look("/", status)
                assert ("only this machine" in page.text) == (status == 403)

    def test_writes_need_their_token_as_well(self, app: Celery, schedules: Schedules) -> None:
        served = create_app(app, insecure=True, secret=SECRET)
        with Visitor(served, base_url="http://localhost", client=("127.0.0.1", 1)) as somebody:
            assert somebody.post("/new", data={"name": "a"}).status_code == 403
            values = {"name": "a", "task": "shop.add", "args": "[1]", "kind": "cron"}
            policies = {"catch_up": "latest", "overlap": "allow", "on_failure": "dead"}
            rest = {"timezone": "UTC", "max_concurrent": "1", "expression": "@daily"}
            somebody.submit("/new", **values, **policies, **rest)
        assert schedules.changes("a")[0].who == "somebody at this machine"


@dataclass(frozen=True)
class Directory:
    """An AuthProvider of somebody else's."""

    def login(self, name: str, password: str) -> User | None:
        return self.find(name) if password == name[::-1] else None

    def find(self, name: str) -> User | None:
        return User(name, editor=name.startswith("e")) if name in {"eve", "rob"} else None


def test_users_from_elsewhere(app: Celery) -> None:
    with Visitor(create_app(app, auth=Directory(), secret=SECRET)) as visitor:
        visitor.log_in("rob", "bor")
        visitor.look("/new", 403)
        visitor.log_in("eve", "eve")
        visitor.look("/new")


def test_the_app_around_it_may_say_who_it_is(app: Celery, schedules: Schedules) -> None:
    def identify(request: Request) -> User | None:
        name = request.headers.get("x-user")
        return User(name, editor=True) if name else None

    schedules.create("bills", "shop.add", cron="@daily", args=[1])
    with Visitor(create_app(app, identify=identify, secret=SECRET)) as visitor:
        assert "does not let you in" in visitor.look("/", 403).text
        visitor.headers["x-user"] = "carol"
        assert "Log out" not in visitor.look("/").text
        visitor.submit("/pause", name="bills")
    assert schedules.changes("bills")[0].who == "carol"


HASH = "scrypt.2.8.1.c2FsdA.aGFzaA"
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "who may look"),
    "two ways": ({"users": {"ada": HASH}, "insecure": True}, "or twice"),
    "no secret": ({"users": {"ada": HASH}, "secret": None}, "secret is missing"),
    "short secret": ({"users": {"ada": HASH}, "secret": "short"}, "too short"),
    "a plain password": ({"users": {"ada": "hunter2"}}, "not a hash"),
    "a costly hash": ({"users": {"ada": "scrypt.1073741824.8.1.YQ.YQ"}}, "not a hash"),
    "an odd cost": ({"users": {"ada": "scrypt.3.8.1.YQ.YQ"}}, "not a hash"),
    "an unknown editor": ({"users": {"ada": HASH}, "editors": ["eve"]}, "names of users"),
    "editors as text": ({"users": {"ada": HASH}, "editors": "ada"}, "names of users"),
    "editors alone": ({"insecure": True, "editors": ["ada"]}, "without users"),
}


@pytest.mark.parametrize("name", WRONG)
def test_it_does_not_start_without_saying_who_may_look(name: str) -> None:
    given, says = WRONG[name]
    how: dict[str, Any] = {"secret": SECRET, **given}
    with pytest.raises(SettingsError, match=says) as caught:
        create_app(Celery("shop", set_as_current=False), **how)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "there are no users"),
        (["# nobody"], "there are no users"),
        (["ada"], "line 1"),
        (["", f"ada:owner:{HASH}"], "line 2"),
        ([f"ada:editor:{HASH}", f"ada:reader:{HASH}"], "line 2"),
        (["ada:editor:hunter2"], "'ada' is not a hash"),
    ],
)
def test_a_file_of_users_that_is_wrong(lines: list[str], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        Passwords.of_lines(lines)


def test_a_file_of_users() -> None:
    hashed: Callable[[str], str] = hash_password
    lines = ["# the shop", "", f"ada:editor:{hashed('a')}", f" bob:reader:{hashed('b')} "]
    users = Passwords.of_lines(lines)
    assert users.login("ada", "a") == User("ada", editor=True)
    assert users.login("bob", "b") == User("bob")
    assert users.login("bob", "a") is None
    assert hash_password("a") != hash_password("a")
