"""The form in a real browser: what one types is previewed, saved, listed and run."""

import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from playwright.sync_api import ConsoleMessage, Page, expect, sync_playwright

from celery_dbbeat import Schedules
from tests.support.processes import Process
from tests.support.server import find_program, free_port
from tests.support.waiting import wait_until

OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
#: Nothing but files of the site itself: no script or style in a page.
POLICY = "default-src 'self'; img-src 'self' data:"


@pytest.fixture
def site(database_url: str, user: object, tmp_path: Path) -> Iterator[str]:
    """The project as `manage.py runserver` serves it."""
    port = free_port()
    command = [sys.executable, "-m", "django", "runserver", "--noreload", "--insecure"]
    env = {
        "DJANGO_SETTINGS_MODULE": "tests.django.project",
        "SHOP_DATABASE": database_url,
        "SHOP_POLICY": POLICY,
    }
    root = Path(__file__).parents[2]
    address = f"http://127.0.0.1:{port}"
    log = tmp_path / "site.log"
    server = Process([*command, f"127.0.0.1:{port}"], log=log, env=env, cwd=root)
    try:
        wait_until(lambda: _answers(address), 60, server.tail)
        yield address
    finally:
        server.terminate()


def _answers(address: str) -> bool:
    try:
        with urlopen(f"{address}/admin/login/") as response:  # noqa: S310 - our own address
            return bool(response.status == 200)
    except URLError:
        return False


@pytest.fixture
def browser_page() -> Iterator[Page]:
    program = find_program("chromium", "chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=OPTIONS)
        found = browser.new_page()
        found.set_default_timeout(30_000)
        expect.set_options(timeout=30_000)
        yield found
        browser.close()


def test_a_schedule_is_typed_previewed_saved_and_run(
    site: str, browser_page: Page, schedules: Schedules
) -> None:
    page = browser_page
    complaints: list[str] = []

    def hear(said: ConsoleMessage) -> None:
        if said.type == "error":
            complaints.append(said.text)

    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", hear)

    page.goto(f"{site}/admin/dbbeat/schedule/add/")
    page.fill("#id_username", "ada")
    page.fill("#id_password", "lovelace")
    page.click("input[type=submit]")

    box = page.locator("#dbbeat-preview")
    page.fill("#id_name", "nightly")
    page.fill("#id_task", "shop.add")
    page.fill("#id_expression", "30 2 * * *")
    expect(box.locator(".dbbeat-description")).to_have_text("At 02:30 every day, UTC")
    expect(box.locator("li")).to_have_count(10)
    page.fill("#id_timezone", "Europe/Berlin")
    expect(box.locator(".dbbeat-description")).to_have_text("At 02:30 every day, Berlin")
    page.fill("#id_expression", "30 2 * *")
    expect(box.locator(".dbbeat-problem")).to_contain_text("4 fields")
    expect(box.locator("li")).to_have_count(0)
    page.fill("#id_expression", "0 9 * * MON-FRI")
    expect(box.locator(".dbbeat-description")).to_have_text("At 09:00, Monday to Friday, Berlin")

    page.click("input[name=_save]")
    expect(page.locator(".errorlist")).to_contain_text("missing 1 required positional argument")
    page.fill("#id_args", "[1]")
    page.click("input[name=_save]")
    page.click("#result_list >> text=nightly")
    page.click("button:has-text('Run now')")
    expect(page.locator(".messagelist")).to_contain_text("1 schedule sent.")

    info = schedules.get("nightly")
    assert (info.expression, info.timezone, info.args) == ("0 9 * * MON-FRI", "Europe/Berlin", [1])
    assert [entry.kind for entry in schedules.history("nightly")] == ["manual"]
    assert [one for one in complaints if "404" not in one] == []
