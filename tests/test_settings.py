"""Every setting: its default, where it may stand, and what is refused with which words."""

import logging
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from celery_dbbeat.errors import SettingsError
from celery_dbbeat.settings import Settings

URL = "postgresql+psycopg://me@host/name"
MINIMAL = {"dbbeat_url": URL}
PASSWORD = "s3cret"  # noqa: S105 - to be looked for in messages

DEFAULTS = {
    "url": URL,
    "schema": None,
    "lease_ttl": 10.0,
    "renew_every": 10.0 / 3,
    "hedge_after": 1.0,
    "batch_size": 1000,
    "database_timeout": 5.0,
    "broker_timeout": 5.0,
    "listen_url": None,
    "auto_migrate": False,
    "guard": False,
    "run_lease": 60.0,
    "max_attempts": 3,
    "resend_after": 30.0,
    "catch_up_rate": None,
    "retention": timedelta(days=90),
    "http": None,
    "worker_http": None,
}
# As in app.conf, as in the environment, as read.
GIVEN: dict[str, tuple[object, str, object]] = {
    "url": ("postgresql://a@b/c", "postgres://d@e/f", "postgresql+psycopg://d@e/f"),
    "schema": ("from_conf", "from_environment", "from_environment"),
    "lease_ttl": (20, "30", 30.0),
    "renew_every": (2, "1.5", 1.5),
    "hedge_after": (2, "0.25", 0.25),
    "batch_size": (5, "50", 50),
    "database_timeout": (2, "3.5", 3.5),
    "broker_timeout": (2, "3.5", 3.5),
    "listen_url": (URL, "postgresql://d@e/f", "postgresql+psycopg://d@e/f"),
    "auto_migrate": (False, "yes", True),
    "guard": (True, "on", True),
    "run_lease": (5, "7.5", 7.5),
    "max_attempts": (5, "7", 7),
    "resend_after": (5, "7.5", 7.5),
    "catch_up_rate": (5, "7.5", 7.5),
    "retention": (timedelta(days=7), "30", timedelta(days=30)),
    "http": ("127.0.0.1:9540", "[::1]:80", "[::1]:80"),
    "worker_http": ("beat-1.local:9540", "0.0.0.0:0", "0.0.0.0:0"),
}
SECONDS = {
    "lease_ttl": (1, 3600),
    "renew_every": (0.1, 1800),
    "hedge_after": (0.05, 600),
    "database_timeout": (0.1, 600),
    "broker_timeout": (0.1, 600),
    "run_lease": (1, 86_400),
    "resend_after": (1, 86_400),
}


def read(conf: dict[str, Any] | None = None, **environ: str) -> Settings:
    return Settings.read({**MINIMAL, **(conf or {})}, environ)


def refusal(name: str, value: object) -> str:
    with pytest.raises(SettingsError) as error:
        read({f"dbbeat_{name}": value})
    return str(error.value)


def test_every_setting_is_tested_here() -> None:
    names = {field.name for field in fields(Settings)}
    assert names == DEFAULTS.keys() == GIVEN.keys()


class TestWhereFrom:
    @pytest.mark.parametrize("name", DEFAULTS)
    def test_the_default(self, name: str) -> None:
        assert getattr(read(), name) == DEFAULTS[name]

    @pytest.mark.parametrize("name", GIVEN)
    def test_app_conf_is_read(self, name: str) -> None:
        in_conf, _, _ = GIVEN[name]
        as_read = "postgresql+psycopg://a@b/c" if name == "url" else in_conf
        assert getattr(read({f"dbbeat_{name}": in_conf}), name) == as_read

    @pytest.mark.parametrize("name", GIVEN)
    def test_the_environment_wins(self, name: str) -> None:
        in_conf, in_environ, as_read = GIVEN[name]
        settings = read({f"dbbeat_{name}": in_conf}, **{f"DBBEAT_{name}".upper(): in_environ})
        assert getattr(settings, name) == as_read

    @pytest.mark.parametrize("name", GIVEN)
    def test_an_empty_variable_is_none(self, name: str) -> None:
        assert read({}, **{f"DBBEAT_{name}".upper(): ""}) == read()

    def test_a_celery_apps_conf_is_read(self) -> None:
        app = Celery("shop", set_as_current=False)
        app.conf.update(dbbeat_url=URL, dbbeat_batch_size=7)
        assert Settings.read(app.conf, {}).batch_size == 7

    def test_the_same_settings_for_another_url(self) -> None:
        settings = read({"dbbeat_batch_size": 7})
        other = settings.at("postgresql+psycopg://me@there/name")
        assert (other.url, other.batch_size) == ("postgresql+psycopg://me@there/name", 7)


class TestUrl:
    @pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
    def test_every_name_of_postgres_is_taken(self, scheme: str) -> None:
        assert read({"dbbeat_url": f"{scheme}://me@host/name"}).url == URL

    @pytest.mark.parametrize("url", ["embedded", "embedded:/var/lib/beat"])
    def test_embedded_is_taken(self, url: str) -> None:
        assert read({"dbbeat_url": url}).url == url

    def test_nothing_set_says_what_is_allowed(self) -> None:
        with pytest.raises(SettingsError) as error:
            Settings.read({}, {})
        assert "dbbeat_url is not set" in str(error.value)
        assert "postgresql+psycopg://user@host/name" in str(error.value)
        assert "embedded:DIR" in str(error.value)

    @pytest.mark.parametrize("name", ["url", "listen_url"])
    @pytest.mark.parametrize(
        "url",
        [
            f"mysql://me:{PASSWORD}@host/name",
            f"postgresql+psycopg2://me:{PASSWORD}@host/name",
            f"sqlite:///{PASSWORD}",
            f"me:{PASSWORD}@host/name",
            f"postgresql:/me:{PASSWORD}@host/name",
            f"postgresql://me:{PASSWORD}@host:port/name",
            f"postgresql://me:{PASSWORD}@host:99999999/name",
            f"postgresql://me:part@{PASSWORD}@host/name",
        ],
    )
    def test_a_wrong_one_is_refused_without_its_password(self, name: str, url: str) -> None:
        said = refusal(name, url)
        assert said.startswith(f"dbbeat_{name} is ")
        assert "postgresql+psycopg://user@host/name" in said
        assert PASSWORD not in said

    def test_the_scheme_of_a_wrong_one_is_shown(self) -> None:
        assert "mysql://…" in refusal("url", "mysql://host")

    def test_a_listener_cannot_be_embedded(self) -> None:
        said = refusal("listen_url", "embedded")
        assert "embedded" not in said


class TestSeconds:
    @pytest.mark.parametrize("name", SECONDS)
    @pytest.mark.parametrize("value", ["soon", "nan", "inf", -1, 0, True, [], timedelta(0), 1e9])
    def test_what_is_wrong_is_refused_with_the_range(self, name: str, value: object) -> None:
        said = refusal(name, value)
        low, high = SECONDS[name]
        assert said.startswith(f"dbbeat_{name} is {value!r}; ")
        assert f"a number of seconds from {low:g} to {high:g}, or a timedelta" in said

    @pytest.mark.parametrize("value", [2, 2.0, "2", " 2 ", timedelta(seconds=2)])
    def test_a_number_a_text_or_a_timedelta(self, value: object) -> None:
        assert read({"dbbeat_hedge_after": value}).hedge_after == 2.0

    @pytest.mark.parametrize("bound", [0, 1])
    @pytest.mark.parametrize("name", SECONDS)
    def test_the_ends_of_the_range_are_allowed(self, name: str, bound: int) -> None:
        value = SECONDS[name][bound]
        lease = {} if name == "lease_ttl" else {"dbbeat_lease_ttl": 3600}
        assert getattr(read({f"dbbeat_{name}": value, **lease}), name) == value


class TestOthers:
    @pytest.mark.parametrize(
        "value", ["many", 0, 10_001, -1, 1.5, "1.5", True, "", "1e3", "9" * 30, []]
    )
    def test_a_batch_size_is_a_whole_number(self, value: object) -> None:
        said = refusal("batch_size", value)
        assert said == f"dbbeat_batch_size is {value!r}; allowed is a whole number from 1 to 10000"

    @pytest.mark.parametrize("value", [1, 10_000, "1", " 77 "])
    def test_a_batch_size_within_the_range(self, value: object) -> None:
        assert read({"dbbeat_batch_size": value}).batch_size == int(str(value))

    @pytest.mark.parametrize("value", ["many", 0, 100_001, -1, True, "", "nan", "inf", []])
    def test_a_rate_is_a_number_of_ticks_a_second(self, value: object) -> None:
        said = refusal("catch_up_rate", value)
        allowed = "a number of ticks a second from 0.01 to 100000"
        assert said == f"dbbeat_catch_up_rate is {value!r}; allowed is {allowed}"

    @pytest.mark.parametrize("yes", [True, 1, "true", "TRUE", "yes", "on", " 1 "])
    @pytest.mark.parametrize("no", [False, 0, "false", "no", "Off", "0"])
    def test_a_flag(self, yes: object, no: object) -> None:
        assert read({"dbbeat_auto_migrate": yes}).auto_migrate is True
        assert read({"dbbeat_auto_migrate": no}).auto_migrate is False

    @pytest.mark.parametrize("value", ["perhaps", 2, "", []])
    def test_a_wrong_flag(self, value: object) -> None:
        said = refusal("auto_migrate", value)
        assert said.startswith(f"dbbeat_auto_migrate is {value!r}; allowed is true or false")

    @pytest.mark.parametrize("value", ["a", "_b", "beat_2", "x" * 48])
    def test_a_schema(self, value: str) -> None:
        assert read({"dbbeat_schema": value}).schema == value

    @pytest.mark.parametrize(
        "value", ["", "Beat", "2b", "a-b", 'a"b', "a.b", "x" * 49, "é", "a\n", 7]
    )
    def test_a_wrong_schema(self, value: object) -> None:
        said = refusal("schema", value)
        assert said.startswith(f"dbbeat_schema is {value!r}; allowed is a name of up to 48")


class TestAgainstTheLease:
    def test_what_is_not_set_follows_the_lease(self) -> None:
        settings = read({"dbbeat_lease_ttl": 1.5})
        assert settings.hedge_after == 0.5
        assert settings.renew_every == 0.5
        assert settings.database_timeout == settings.broker_timeout == 0.75

    @pytest.mark.parametrize("ttl", [1, 2, 10, 3600])
    def test_the_defaults_fit_every_lease(self, ttl: float) -> None:
        settings = read({"dbbeat_lease_ttl": ttl})
        assert settings.hedge_after <= 1

    @pytest.mark.parametrize("name", ["hedge_after", "database_timeout", "broker_timeout"])
    @pytest.mark.parametrize("value", [10, 11])
    def test_it_has_to_be_below_the_lease(self, name: str, value: float) -> None:
        said = refusal(name, value)
        assert f"dbbeat_{name} is {value} s; it has to be below dbbeat_lease_ttl" in said
        assert "which is 10 s" in said

    def test_renewing_has_to_be_twice_a_lease_at_least(self) -> None:
        assert read({"dbbeat_renew_every": 5}).renew_every == 5
        said = refusal("renew_every", 5.1)
        assert "dbbeat_renew_every is 5.1 s; it has to be at most half of dbbeat_lease_ttl" in said


class TestUnknownNames:
    @pytest.mark.parametrize(
        ("name", "meant"),
        [
            ("dbbeat_hedge_afer", "dbbeat_hedge_after"),
            ("dbbeat_lease_tll", "dbbeat_lease_ttl"),
            ("dbbeat_batchsize", "dbbeat_batch_size"),
        ],
    )
    def test_a_slip_is_warned_of(
        self, caplog: pytest.LogCaptureFixture, name: str, meant: str
    ) -> None:
        read({name: PASSWORD})
        assert f"{name} is not a setting of this version" in caplog.text
        assert f"did you mean {meant}?" in caplog.text
        assert PASSWORD not in caplog.text

    def test_in_the_environment_as_well(self, caplog: pytest.LogCaptureFixture) -> None:
        read({}, DBBEAT_COLOUR="blue")
        (record,) = caplog.records
        assert record.levelno == logging.WARNING
        assert "dbbeat_colour is not a setting of this version" in record.getMessage()
        assert "did you mean" not in record.getMessage()

    def test_what_others_read_is_not_warned_of(self, caplog: pytest.LogCaptureFixture) -> None:
        read({}, DBBEAT_FAILPOINTS="", DBBEAT_TEST_REDIS_URL="redis://", PATH="/bin")
        assert caplog.records == []


@pytest.mark.parametrize("value", [0, 0.5, "ninety", 36_501, -1, "inf", "nan", timedelta(hours=1)])
def test_a_retention_that_is_no_number_of_days_is_refused(value: object) -> None:
    told = refusal("retention", value)
    assert f"dbbeat_retention is {value!r}; allowed is a number of days from 1 to 36500" in told


class TestAddresses:
    @pytest.mark.parametrize("name", ["http", "worker_http"])
    @pytest.mark.parametrize("value", [9540, "9540", "host", "host:", "a b:1", "h:65536", "::1:80"])
    def test_a_wrong_one_is_refused(self, name: str, value: object) -> None:
        said = refusal(name, value)
        assert said.startswith(f"dbbeat_{name} is {value!r}; allowed is host:port, such as ")

    @pytest.mark.parametrize(("given", "read_as"), [(":0", "127.0.0.1:0"), (" h:080 ", "h:80")])
    def test_without_a_host_it_is_this_machine_alone(self, given: str, read_as: str) -> None:
        assert read({"dbbeat_http": given}).http == read_as


class TestSecretsInFiles:
    @pytest.mark.parametrize("name", ["url", "listen_url"])
    def test_the_content_counts(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
    ) -> None:
        (tmp_path / "secret").write_text("postgresql://a:s3cret@host/name\n")
        settings = read({}, **{f"DBBEAT_{name.upper()}_FILE": str(tmp_path / "secret")})
        assert getattr(settings, name) == "postgresql+psycopg://a:s3cret@host/name"
        assert caplog.records == []

    def test_one_of_the_two(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match="DBBEAT_URL and DBBEAT_URL_FILE are both set"):
            read({}, DBBEAT_URL=URL, DBBEAT_URL_FILE=str(tmp_path))

    @pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff\xfe"])
    def test_one_that_says_nothing_is_refused(self, tmp_path: Path, content: bytes | None) -> None:
        file = tmp_path / "secret"
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(SettingsError) as error:
            read({}, DBBEAT_URL_FILE=str(file))
        assert f"DBBEAT_URL_FILE is {str(file)!r}" in str(error.value)
        assert "allowed is the name of a file that holds the URL" in str(error.value)
