"""`dbbeat web`: refused without users, served with them, and looked at with a real browser."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from celery_dbbeat import Schedules
from tests.support.server import free_port
from tests.support.waiting import wait_until
from tests.web.visitor import PASSWORDS

SHOP = """\
import os
from celery import Celery

app = Celery("shop", broker="memory://")
app.conf.dbbeat_url = os.environ["SHOP_URL"]

@app.task(name="shop.bill")
def bill(plan, month=None): ...
"""
BROWSER = "/usr/bin/chromium"
QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
)
COMMAND = [sys.executable, "-m", "celery", "-A", "shop", "dbbeat"]


@pytest.fixture
def shop(tmp_path: Path, database_url: str, users: dict[str, str]) -> tuple[Path, dict[str, str]]:
    """A folder with the app and its users, and the environment to run it in."""
    (tmp_path / "shop.py").write_text(SHOP)
    roles = {"ada": "editor", "bob": "reader"}
    lines = [f"{name}:{roles[name]}:{hashed}" for name, hashed in users.items()]
    (tmp_path / "users").write_text("\n".join(lines))
    ours = {name: value for name, value in os.environ.items() if not name.startswith("DBBEAT_")}
    return tmp_path, {**ours, "SHOP_URL": database_url}


@pytest.fixture
def site(shop: tuple[Path, dict[str, str]]) -> Iterator[str]:
    """The address of the pages, served by the command."""
    folder, environment = shop
    port = free_port()
    command = [*COMMAND, "web", "--port", str(port), "--users-file", "users"]
    secret = {"DBBEAT_WEB_SECRET": "a secret of the shop, long enough to sign"}
    with subprocess.Popen(command, cwd=folder, env={**environment, **secret}) as served:
        address = f"http://127.0.0.1:{port}"
        try:
            wait_until(lambda: _answers(address), timeout=60)
            yield address
        finally:
            served.terminate()


def _answers(address: str) -> bool:
    try:
        with urlopen(f"{address}/login", timeout=5) as answer:  # noqa: S310 - our own
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.mark.parametrize(
    ("options", "environment", "says"),
    [
        ([], {}, "nobody may log in"),
        (["--insecure", "--host", "0.0.0.0"], {}, "allowed with --insecure"),  # noqa: S104 - refused
        (["--insecure", "--users-file", "users"], {}, "does not go with users"),
        (["--users-file", "users"], {}, "secret is missing"),
        (["--users-file", "users"], {"DBBEAT_WEB_SECRET": "short"}, "too short"),
        ([], {"DBBEAT_WEB_USERS": "ada:editor:hunter2"}, "not a hash"),
    ],
)
def test_it_is_not_served_to_just_anybody(
    shop: tuple[Path, dict[str, str]], options: list[str], environment: dict[str, str], says: str
) -> None:
    folder, own = shop
    done = subprocess.run(
        [*COMMAND, "web", *options],
        cwd=folder, env={**own, **environment}, capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip
    assert done.returncode in {1, 2}
    assert says in done.stderr
    assert "hunter2" not in done.stderr


def test_a_password_is_hashed(shop: tuple[Path, dict[str, str]]) -> None:
    folder, environment = shop
    done = subprocess.run(
        [*COMMAND, "web-password"], input="secret\n", cwd=folder, env=environment,
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert re.fullmatch(r"scrypt(\.[\w-]+){5}\n", done.stdout)


@pytest.fixture
def page(site: str) -> Iterator[Page]:
    """A tab of a real browser; what its console says wrong is an error."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=list(QUIET))
        tab = browser.new_page(base_url=site)
        wrong: list[str] = []
        tab.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        yield tab
        browser.close()
    assert wrong == []


def test_in_a_real_browser(page: Page, schedules: Schedules) -> None:
    page.goto("/new")
    page.get_by_label("Name").fill("ada")
    page.get_by_label("Password").fill(PASSWORDS["ada"])
    page.get_by_role("button", name="Log in").click()

    description, times = page.locator("#told"), page.locator("#times li")
    expect(description).to_have_text("At 09:00, Monday to Friday, UTC")
    page.get_by_label("Expression").fill("30 2 * * *")
    expect(description).to_have_text("At 02:30 every day, UTC")
    page.get_by_label("Time zone").fill("Europe/Berlin")
    expect(description).to_have_text("At 02:30 every day, Berlin")
    expect(times).to_have_count(10)
    expect(times.first).to_contain_text("02:30:00 CE")
    page.get_by_label("Expression").fill("61 * * * *")
    expect(page.locator("#problem-expression")).to_contain_text("61")
    expect(times).to_have_count(0)
    page.get_by_label("Expression").fill("*/15 * * * *")
    expect(page.locator("#problem-expression")).to_be_empty()

    page.get_by_label("Name", exact=True).fill("<script>alert(1)</script>")
    page.get_by_label("Task", exact=True).fill("shop.bill")
    page.get_by_label("Arguments", exact=True).fill("[]")
    expect(page.locator("#problem-args")).to_contain_text("does not take")
    page.get_by_label("Arguments", exact=True).fill('["monthly"]')
    expect(page.locator("#problem-args")).to_be_empty()
    page.get_by_role("button", name="Make it").click()

    expect(page.locator("h1")).to_contain_text("<script>alert(1)</script>")
    page.get_by_role("link", name="Schedules").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="<script>alert(1)</script>").click()
    page.get_by_text("Run now").first.click()
    page.get_by_role("button", name="Run now").click()
    expect(page.locator(".said")).to_contain_text("Beat sends it now")
    assert [entry.kind for entry in schedules.history("<script>alert(1)</script>")] == ["manual"]

    page.set_viewport_size({"width": 390, "height": 844})
    for path in ("/", "/new", "/replicas", "/dead"):
        page.goto(path)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390, path
