"""One server for all who use it, for as long as they do."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psycopg
import pytest

from celery_dbbeat import embedded
from tests.embedded.place import Place, url_of
from tests.support.waiting import wait_until

IS_ROOT = os.geteuid() == 0


def test_two_processes_share_one_server(place: Place) -> None:
    first, second = place.use(), place.use()
    assert url_of(first) == url_of(second)
    place.query("CREATE TABLE seen AS SELECT 7 AS n", first)
    assert place.query("SELECT n FROM seen", second) == 7
    assert len(place.running) == 2  # a keeper and a server


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_the_last_to_end_stops_it(place: Place, end: signal.Signals) -> None:
    first, last = place.use(), place.use()
    first.send(end)
    first.wait()
    assert place.query("SELECT 1", last) == 1
    last.send(end)
    last.wait()
    place.wait_for_end()
    assert not (place.data / "postmaster.pid").exists()  # it was shut down in order


def test_the_data_stay(place: Place) -> None:
    first = place.use()
    place.query("CREATE TABLE kept AS SELECT 'here' AS word", first)
    first.kill9()
    place.wait_for_end()
    again = place.use()
    assert place.query("SELECT word FROM kept", again) == "here"


def test_who_start_at_once_get_one_server(place: Place) -> None:
    users = [place.begin() for _ in range(5)]
    assert len({url_of(user) for user in users}) == 1
    assert len({place.query("SELECT pg_postmaster_start_time()", user) for user in users}) == 1
    assert len(place.running) == 2


def test_who_comes_while_it_stops_gets_a_new_one(place: Place) -> None:
    user = place.use()
    for pause in (0, 0.1, 0.18, 0.2, 0.22, 0.25):
        user.kill9()
        time.sleep(pause)  # somewhere around the moment at which the keeper finds out
        user = place.use()
        assert place.query("SELECT 1", user) == 1


def test_a_starter_killed_on_the_way_leaves_nothing_half_done(place: Place) -> None:
    for pause in (0.15, 0.25, 0.35, 0.45, 0.55):
        starter = place.begin()
        time.sleep(pause)
        starter.kill9()
    assert place.query("SELECT 1", place.use()) == 1
    assert not list(place.data.parent.glob("data.new-*"))


def test_a_forked_child_uses_it_too(place: Place) -> None:
    parent = place.use("--leave-a-child")
    assert parent.wait() == 0
    time.sleep(1)
    assert place.query("SELECT 1") == 1
    parent.kill9()
    place.wait_for_end()


def test_a_killed_keeper_takes_the_server_along(place: Place) -> None:
    user = place.use()
    place.query("CREATE TABLE kept AS SELECT 1 AS n")
    os.kill(place.keeper, signal.SIGKILL)
    later = place.use()  # at once: the old server may still be on its way out
    assert place.query("SELECT n FROM kept", later) == 1
    assert user.running


def test_a_server_that_dies_under_its_users_comes_back(place: Place) -> None:
    place.use()
    place.query("CREATE TABLE kept AS SELECT 1 AS n")
    os.kill(place.server, signal.SIGKILL)

    def answers() -> bool:
        try:
            return place.query("SELECT n FROM kept") == 1
        except psycopg.OperationalError:
            return False

    wait_until(answers, 30, "the server's return")


def test_the_number_of_a_dead_server_may_be_in_use(place: Place) -> None:
    place.use().kill9()
    place.wait_for_end()
    owner = place.data.stat()
    with subprocess.Popen(
        ["sleep", "60"], user=owner.st_uid if IS_ROOT else None, stdin=subprocess.DEVNULL
    ) as bystander:
        lines = [bystander.pid, place.data, 1, 5432, place.path / "server/run", "", "1 1", "ready"]
        (place.data / "postmaster.pid").write_text("\n".join(map(str, lines)))
        assert place.query("SELECT 1", place.use()) == 1
        assert bystander.poll() is None  # unhurt
        bystander.kill()


def test_a_path_too_long_for_a_socket(place: Place) -> None:
    place.path /= "a folder with a long name, and even a comma" * 3
    user = place.use()
    sockets = Path(str(place.query("SHOW unix_socket_directories", user)).strip('"'))
    assert sockets.stat().st_mode & 0o777 == 0o700
    user.kill9()
    place.wait_for_end()
    assert not sockets.exists()


def test_a_path_with_odd_characters(place: Place) -> None:
    place.path /= "ä, %20&b=c"
    assert place.query("SELECT 1", place.use()) == 1


def test_only_its_user_gets_to_the_socket_and_there_is_no_port(place: Place) -> None:
    place.use()
    assert place.data.parent.stat().st_mode & 0o777 == 0o700
    assert place.query("SHOW listen_addresses") == ""
    rules = "SELECT string_agg(DISTINCT type || ' ' || auth_method, ',') FROM pg_hba_file_rules"
    assert place.query(rules) == "host reject,local trust"


def test_start_again_in_the_same_process_is_free(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.use()  # so that the server is not started by the test run itself
    first = embedded.start(f"embedded:{place.path}")
    monkeypatch.chdir(place.path.parent)
    assert embedded.start("embedded:embedded") == first
    assert not embedded.stop("embedded:embedded", timeout=1)  # there is another user


def test_stop_waits_for_the_end_if_nobody_else_uses_it(place: Place) -> None:
    url = f"embedded:{place.path}"
    for _ in range(2):
        embedded.start(url)
        assert len(place.running) == 2
        assert embedded.stop(url)
        assert not place.running
    assert embedded.stop(url)


@pytest.mark.skipif(not IS_ROOT, reason="only root can become another user")
def test_an_ordinary_user_has_its_own(place: Place) -> None:
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None:
        pytest.skip("no Python that another user can reach")
    place.path = place.path.parent / "nobody" / "embedded"
    place.path.parent.mkdir()
    shutil.chown(place.path.parent, "nobody")
    user = place.begin(python=python, account="nobody")
    assert place.query("SELECT current_user", user) == "postgres"
    assert place.data.owner() == place.path.owner() == "nobody"
    assert "belongs to" in place.failure()  # root does not walk into what others can change


def test_a_strict_umask(place: Place) -> None:
    before = os.umask(0o077)
    try:
        place.path /= "made/on/the/way"
        place.use()
    finally:
        os.umask(before)


@pytest.mark.skipif(not IS_ROOT, reason="as an ordinary user the server runs as that user")
def test_root_hands_over_to_an_ordinary_user(place: Place) -> None:
    place.use()
    assert place.data.owner() in {"postgres", "nobody"}
    assert place.path.owner() == "root"
    assert {Path(f"/proc/{pid}").stat().st_uid for pid in place.running} == {
        place.data.stat().st_uid
    }
