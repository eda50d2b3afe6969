"""What is wrong is shown at its field and not written; what somebody wrote is only ever text."""

import json
from html import unescape
from typing import Any

import pytest

from celery_dbbeat import Schedules
from celery_dbbeat.rules.trigger import KINDS
from tests.api.kit import Clerk
from tests.support.bad_input import BAD_INPUT, Bad
from tests.web.visitor import Visitor, form

EVIL = "<script>alert('x')</script>\"><img src=x onerror=alert(1)>"
_TEXT = ("name", "task", "timezone", "description", "queue")
_WHENS = frozenset((*KINDS, "kind"))
_JSON = ("args", "kwargs", "options", "labels", "exclude")


def typed(bad: Bad) -> dict[str, str] | None:
    """A bad input as it is typed in the form; None where no field of it could hold that."""
    whens = _WHENS & bad.definition.keys()
    if len(whens) > 1:  # there is one field for it
        return None
    texts = {"expression": ""}
    for name, value in bad.definition.items():
        text = _typed(name, value)
        if text is None:
            return None
        texts |= {"kind": name, "expression": text} if name in KINDS else {name: text}
    return texts


def _typed(name: str, value: object) -> str | None:
    """One value; what no browser could send, or means something right as a text, is none."""
    if name in _JSON:
        try:
            text = json.dumps(value)
            return text if json.loads(text) == value else None
        except (TypeError, ValueError, RecursionError):
            return None
    number = isinstance(value, int | float) and not isinstance(value, bool) and name not in _TEXT
    if not number and (not isinstance(value, str) or (name, value) == ("queue", "")):
        return None
    text = str(value)
    return text if text.isascii() or text.isprintable() else None


TYPED = [(bad, texts) for bad in BAD_INPUT if (texts := typed(bad)) is not None]
#: Not fields of the form, so there is nothing to type them into.
ELSEWHERE = {"state", "paused", "colour", "misfire_grase"}
CASES = [
    (bad, texts) for bad, texts in TYPED
    if bad.field not in ELSEWHERE and texts.keys() & {bad.field, "expression", "options", "args"}
]  # fmt: skip
ONLY_TYPED = (
    ("args", "[1", "args is '[1'; allowed is JSON"),
    ("args", "{}", "args is {}"),
    ("args", "[]", "does not take"),
    ("kwargs", "[" * 100_000, "allowed is JSON"),
    ("max_runs", "many", "allowed is a whole number"),
    ("jitter", "soon", "allowed is a number of seconds"),
    ("misfire_grace", "nan", "misfire_grace is"),
    ("timezone", "Mars/Olympus", "Mars/Olympus"),
    ("expression", "61 * * * *", "minute"),
    ("expression", "", "cron is"),
    ("name", "", "name is"),
    ("labels", '["a"]', "labels is"),
    ("start_at", "soon", "start_at is"),
    ("priority", "4000", "priority is 4000"),
    ("overlap", "sometimes", "overlap is"),
    ("kind", "moon", "kind is"),
)


@pytest.fixture(scope="module")
def one_database(databases: Any, template: str) -> Any:  # noqa: ANN401 - pytest's
    name = "dbbeat_web_bad_input"
    yield databases.create(name, template)
    databases.drop(name)


class TestBadInput:
    @pytest.fixture
    def database_url(self, one_database: str) -> str:
        """One for all: nothing is written."""
        return one_database

    def test_there_are_many_of_them(self) -> None:
        assert len(CASES) >= 40

    def test_each_is_refused_at_its_field(self, ada: Visitor, schedules: Schedules) -> None:
        blank = form(ada.look("/new"), "/new")
        for bad, texts in CASES:
            page = ada.post("/new", data={**blank, **texts})
            assert page.status_code == 400, bad.id
            assert 'aria-invalid="true"' in page.text, bad.id
            answer = ada.post("/check", data={**blank, **texts}).json()
            assert answer["problems"], bad.id
            places = {bad.field, "expression", "args", "kwargs", "options"}
            assert answer["problems"].keys() <= places, bad.id
        assert schedules.list() == []

    def test_what_can_only_be_typed(self, ada: Visitor, schedules: Schedules) -> None:
        good = form(ada.look("/new"), "/new") | {"name": "a", "task": "shop.add", "args": "[1]"}
        for field, text, says in ONLY_TYPED:
            page = ada.post("/new", data={**good, field: text})
            assert page.status_code == 400, (field, text)
            at = page.text.split(f'data-field="{field}"')[1].split("</small>")[0]
            assert says in unescape(at), (field, text)
        assert schedules.list() == []


def test_the_preview_says_what_will_fire(ada: Visitor, schedules: Schedules) -> None:
    blank = form(ada.look("/new"), "/new")
    new_york = {"kind": "cron", "expression": "30 2 * * *", "timezone": "America/New_York"}
    asked = {**blank, **new_york, "args": "[", "start_at": "2030-03-09T00:00"}
    answer = ada.post("/check", data=asked).json()
    assert answer["description"].startswith("At 02:30 every day, New York")
    assert len(answer["times"]) == 10
    gap = answer["times"][1]
    assert gap["local"] == "Sun 2030-03-10 03:00:00 EDT"
    assert "clocks skip" in gap["dst"]
    assert "allowed is JSON" in answer["problems"]["args"]
    once = {**blank, "kind": "once", "expression": "2000-01-01T00:00"}
    assert ada.post("/check", data=once).json()["times"] == []
    assert schedules.list() == []


def test_a_name_that_is_taken(ada: Visitor, schedules: Schedules) -> None:
    schedules.create("bills", "shop.add", cron="@daily", args=[1])
    values = form(ada.look("/new"), "/new") | {"name": "bills", "task": "shop.add", "args": "[1]"}
    page = ada.post("/new", data=values)
    assert page.status_code == 400
    assert "which is taken" in page.text.split('data-field="name"')[1].split("</small>")[0]
    schedules.create("other", "shop.add", cron="@daily", args=[1])
    edited = form(ada.look("/edit", name="other"), "/edit") | {"name": "bills"}
    assert ada.post("/edit", data=edited).status_code == 400
    assert len(schedules.list()) == 2


def test_what_the_code_owns_is_changed_there(
    ada: Visitor, schedules: Schedules, clerk: Clerk
) -> None:
    clerk.add("nightly", owner="code")
    page = ada.look("/schedule", name="nightly")
    assert "/edit?" not in page.text
    edited = form(ada.look("/edit", name="nightly"), "/edit") | {"expression": "60"}
    assert "comes from the app" in ada.post("/edit", data=edited).text
    version = schedules.get("nightly").version
    ada.submit("/delete", 400, name="nightly", version=version)
    ada.submit("/pause", name="nightly")
    assert schedules.get("nightly").state == "paused"


def test_what_somebody_wrote_is_only_ever_text(
    ada: Visitor, schedules: Schedules, clerk: Clerk
) -> None:
    schedules.create(
        EVIL,
        EVIL,
        cron="@daily",
        args=[EVIL],
        labels={EVIL: EVIL},
        description=EVIL,
        options={"queue": EVIL, "headers": {EVIL: EVIL}},
    )
    identity = schedules.get(EVIL).id
    nominal = schedules.now()
    task_id = clerk.tick(identity, nominal, "dead", reason=EVIL, replica=EVIL)
    clerk.run(task_id, nominal, "failed", error=EVIL, traceback=EVIL, worker=EVIL)
    schedules.pause(EVIL, note=EVIL)
    day = str(nominal.date())
    schedules.backfill(EVIL, day, day, note=EVIL)
    pages = [
        *(ada.look(path, name=EVIL) for path in ("/", "/schedule", "/edit", "/delete")),
        *(ada.look(path, name=EVIL) for path in ("/dead", "/changes", "/backfills")),
        ada.look("/schedule", name=EVIL, at=nominal.isoformat()),
        ada.look("/schedule", name=EVIL, at=EVIL),
        ada.look("/backfill", name=EVIL, start=day, end=day, note=EVIL),
        ada.look("/backfill", 400, name=EVIL, start=EVIL, end=EVIL),
        ada.look("/schedule", 404, name=EVIL + "?"),
        ada.look("/", task=EVIL, queue=EVIL, label=f"{EVIL}={EVIL}", text=EVIL, after=EVIL),
        ada.look("/", 400, state=EVIL),
        ada.submit("/login", 403, name=EVIL, next=EVIL),
        ada.submit("/pause", name=EVIL, note=EVIL),
    ]
    for page in pages:
        assert "<script>alert" not in page.text, page.url
        assert "<img" not in page.text, page.url
    assert all("&lt;script&gt;" in page.text for page in pages[:6])
    values = form(ada.look("/new"), "/new")
    answer = ada.post("/check", data={**values, "expression": EVIL})
    assert answer.headers["content-type"] == "application/json"
