"""What the commands do, say and exit with."""

import json

import psycopg
import pytest

from celery_dbbeat.store.migrate import head
from tests.cli.conftest import Done, Run
from tests.support.services import free_port, psycopg_url


def slots(url: str) -> int:
    with psycopg.connect(psycopg_url(url)) as connection:
        (row,) = connection.execute("SELECT count(*) FROM dbbeat_lease")
    return int(row[0])


def failed(done: Done, code: int) -> str:
    """The one line that a failure says, with no traceback and nothing on stdout."""
    assert (done.returncode, done.stdout) == (code, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ")
    return line


class TestMigrate:
    def test_it_makes_the_tables_and_says_the_version(
        self, celery: Run, empty_database_url: str
    ) -> None:
        done = celery("migrate", SHOP_URL=empty_database_url)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"The tables are at version {head()}.\n"
        assert slots(empty_database_url) == 1

    def test_again_and_in_json(self, celery: Run, database_url: str) -> None:
        done = celery("migrate", "--json", SHOP_URL=database_url)
        assert done.returncode == 0
        assert json.loads(done.stdout) == {"version": head()}

    def test_into_the_schema_that_is_set(self, celery: Run, empty_database_url: str) -> None:
        done = celery("migrate", DBBEAT_URL=empty_database_url, DBBEAT_SCHEMA="elsewhere")
        assert done.returncode == 0
        with psycopg.connect(psycopg_url(empty_database_url)) as connection:
            found = connection.execute("SELECT to_regclass('elsewhere.dbbeat_schedule')")
            assert found.fetchone() != (None,)


class TestShards:
    def test_the_shards_are_cut(self, celery: Run, database_url: str) -> None:
        done = celery("shards", "8", SHOP_URL=database_url)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == "The shards are cut into 8 slots.\n"
        assert slots(database_url) == 8

    def test_in_json(self, celery: Run, database_url: str) -> None:
        done = celery("shards", "256", "-j", SHOP_URL=database_url)
        assert json.loads(done.stdout) == {"slots": 256}
        assert slots(database_url) == 256

    @pytest.mark.parametrize("number", ["0", "257", "-1", "many", "1.5"])
    def test_another_number_is_a_wrong_use(self, celery: Run, number: str) -> None:
        done = celery("shards", "--", number)
        assert (done.returncode, done.stdout) == (2, "")
        assert number in done.stderr

    def test_without_tables_it_says_what_to_run(self, celery: Run, empty_database_url: str) -> None:
        done = celery("shards", "8", SHOP_URL=empty_database_url)
        assert "dbbeat migrate" in failed(done, 1)


class TestFailures:
    @pytest.mark.parametrize("command", [["migrate"], ["shards", "8"], ["history", "a"], ["dead"]])
    def test_an_unreachable_database_is_69(self, celery: Run, command: list[str]) -> None:
        url = f"postgresql://me:s3cret@127.0.0.1:{free_port()}/none"
        done = celery(*command, SHOP_URL=url)
        # What the driver says has several lines.
        assert (done.returncode, done.stdout) == (69, "")
        assert done.stderr.startswith("Error: ")
        assert "Traceback" not in done.stderr
        assert "s3cret" not in done.stderr

    def test_no_url_is_1(self, celery: Run) -> None:
        assert "dbbeat_url is not set" in failed(celery("migrate"), 1)

    def test_a_wrong_setting_is_1(self, celery: Run) -> None:
        done = celery("migrate", SHOP_URL="embedded", SHOP_LEASE_TTL="soon")
        assert "dbbeat_lease_ttl is 'soon'" in failed(done, 1)

    def test_a_port_that_is_none_is_1_without_the_password(self, celery: Run) -> None:
        done = celery("shards", "8", SHOP_URL="postgresql://me:s3cret@host:port/name")
        line = failed(done, 1)
        assert "dbbeat_url" in line
        assert "s3cret" not in line

    @pytest.mark.parametrize("arguments", [["shards"], ["migrate", "--fast"], ["vanish"]])
    def test_a_wrong_use_is_2(self, celery: Run, arguments: list[str]) -> None:
        done = celery(*arguments)
        assert (done.returncode, done.stdout) == (2, "")

    def test_help_names_the_commands(self, celery: Run) -> None:
        done = celery("--help")
        assert done.returncode == 0
        commands = ["migrate", "shards", "history", "dead", "replay", "roles"]
        assert [name for name in commands if f"\n  {name} " not in done.stdout] == []
