"""Every setting, read once from `app.conf` and the environment into one frozen object.

A setting is called the same everywhere: `dbbeat_hedge_after` in `app.conf`, `DBBEAT_HEDGE_AFTER`
in the environment, `hedge_after` here. As with Celery's own broker URL, the environment wins.
A wrong value is refused at start, with its name, the value, and what is allowed.
"""

import difflib
import logging
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from celery_dbbeat.errors import SettingsError

logger = logging.getLogger(__name__)

PREFIX = "dbbeat_"

_PORTS = 65536

_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]*):(?P<port>[0-9]{1,5})", re.ASCII)
_LOOPBACK = "127.0.0.1"

#: What may hold a password, and so may also be the content of a file: DBBEAT_URL_FILE.
_IN_FILES = ("url", "listen_url")


@dataclass(frozen=True)
class Settings:
    """What a replica needs to know."""

    #: A SQLAlchemy URL of a Postgres database, or `embedded` / `embedded:DIR`.
    url: str
    #: The Postgres schema that holds the tables; None: the first of the search path.
    schema: str | None = None
    #: How long a lease lasts without being renewed.
    lease_ttl: float = 10.0
    #: How often a lease is renewed.
    renew_every: float = 10.0 / 3
    #: How overdue a fire time must be before a replica without the lease takes it.
    hedge_after: float = 1.0
    #: How many schedules one claim takes at the most.
    batch_size: int = 1000
    #: How long the database may take to answer.
    database_timeout: float = 5.0
    #: How long the broker may take to answer.
    broker_timeout: float = 5.0
    #: Where to LISTEN, when `url` leads through a pooler that cannot: a direct URL.
    listen_url: str | None = None
    #: Whether beat brings the tables up to date by itself at start.
    auto_migrate: bool = False
    #: Whether workers take ids before they run a tick; `celery_dbbeat.setup` sets it.
    guard: bool = False
    #: How long a worker has a tick without renewing that; it does while the task runs.
    run_lease: float = 60.0
    #: How often a tick is begun before it is dead, unless its schedule says otherwise.
    max_attempts: int = 3
    #: How long after sending a tick that no worker took is looked for.
    resend_after: float = 30.0
    #: How many late ticks a second are sent at the most; None: twice as many as usual.
    catch_up_rate: float | None = None
    #: How long ticks and runs are kept.
    retention: timedelta = timedelta(days=90)
    #: Where beat answers probes and shows its metrics, as host:port; None: nowhere.
    http: str | None = None
    #: The same for workers.
    worker_http: str | None = None

    @classmethod
    def read(cls, conf: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> "Settings":
        """Read and check all settings; raise SettingsError for the first that is wrong."""
        given = {name: _lookup(name, conf, environ) for name in _READERS}
        _warn_of_unknown(conf, environ)
        values = {name: _READERS[name](name, raw) for name, raw in given.items() if raw is not None}
        if "url" not in values and _fallbacks:
            values["url"] = _url("url", _fallbacks[-1]())
        if "url" not in values:
            raise SettingsError(
                "dbbeat_url is not set; allowed is a SQLAlchemy URL of a Postgres database, as "
                "postgresql+psycopg://user@host/name, or 'embedded' or 'embedded:DIR'"
            )
        lease_ttl = values.setdefault("lease_ttl", cls.lease_ttl)
        values.setdefault("hedge_after", min(cls.hedge_after, lease_ttl / 3))
        values.setdefault("renew_every", lease_ttl / 3)
        values.setdefault("database_timeout", lease_ttl / 2)
        values.setdefault("broker_timeout", lease_ttl / 2)
        settings = cls(**values)
        settings._check_against_lease()
        return settings

    def at(self, url: str) -> "Settings":
        """The same settings, for this URL."""
        return replace(self, url=url)

    def _check_against_lease(self) -> None:
        for name in ("renew_every", "hedge_after", "database_timeout", "broker_timeout"):
            value = getattr(self, name)
            limit = self.lease_ttl / 2 if name == "renew_every" else self.lease_ttl
            if value > limit or value == self.lease_ttl:
                raise SettingsError(
                    f"dbbeat_{name} is {value:g} s; it has to be "
                    f"{'at most half of' if name == 'renew_every' else 'below'} "
                    f"dbbeat_lease_ttl, which is {self.lease_ttl:g} s"
                )


#: Who can say where the schedules are, where nothing is set: a framework that has a database.
_fallbacks: list[Callable[[], str]] = []


def fall_back(url: Callable[[], str]) -> None:
    """Ask this for the URL wherever `dbbeat_url` is not set."""
    _fallbacks.append(url)


def read_one(name: str, conf: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> Any:  # noqa: ANN401 - by setting
    """One setting alone, where the others need not be right yet; None: not set."""
    raw = _lookup(name, conf, environ)
    return None if raw is None else _READERS[name](name, raw)


def _lookup(name: str, conf: Mapping[str, Any], environ: Mapping[str, str]) -> object:
    key = PREFIX + name
    variable = key.upper()
    file = environ.get(f"{variable}_FILE") if name in _IN_FILES else None
    if not file:
        return environ.get(variable) or conf.get(key)
    if environ.get(variable):
        raise SettingsError(f"{variable} and {variable}_FILE are both set; allowed is one of them")
    return _content(f"{variable}_FILE", file)


def _content(variable: str, file: str) -> str:
    allowed = "the name of a file that holds the URL, and that this process may read"
    try:
        text = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{variable} is {file!r}: {error}; allowed is {allowed}") from None
    if not text:
        raise SettingsError(f"{variable} is {file!r}, which is empty; allowed is {allowed}")
    return text


#: Django's settings are Celery's as well, in a project that says so.
_OF_DJANGO = {"dbbeat_app", "dbbeat_database"}


def _warn_of_unknown(conf: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    known = {PREFIX + field.name for field in fields(Settings)} | _OF_DJANGO
    in_files = tuple(f"{PREFIX}{name}_file" for name in _IN_FILES)
    elsewhere = ("dbbeat_failpoints", "dbbeat_test_", "dbbeat_embedded_", "dbbeat_web_", *in_files)
    for key in sorted({str(key).lower() for key in [*conf.keys(), *environ]}):
        if key.startswith(PREFIX) and key not in known and not key.startswith(elsewhere):
            # Without the prefix, which would make any two of them look alike.
            names = [name.removeprefix(PREFIX) for name in known]
            close = difflib.get_close_matches(key.removeprefix(PREFIX), names, n=1)
            hint = f"; did you mean {PREFIX}{close[0]}?" if close else ""
            logger.warning("%s is not a setting of this version and is ignored%s", key, hint)


def _refuse(name: str, value: object, allowed: str) -> SettingsError:
    return SettingsError(f"{PREFIX}{name} is {value!r}; allowed is {allowed}")


def _url(name: str, raw: object) -> str:
    allowed = (
        "a SQLAlchemy URL of a Postgres database by psycopg 3, such as "
        "postgresql+psycopg://user@host/name"
        + (", or 'embedded' or 'embedded:DIR'" if name == "url" else "")
    )
    text = str(raw).strip()
    if name == "url" and (text == "embedded" or text.startswith("embedded:")):
        return text
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in {"postgres", "postgresql", "postgresql+psycopg"}:
        # A URL may hold a password, so only its scheme is shown.
        if not separator:
            raise SettingsError(f"{PREFIX}{name} is not a URL; allowed is {allowed}")
        raise _refuse(name, f"{scheme}://…", allowed)
    url = f"postgresql+psycopg://{rest}"
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise _refuse(name, f"{scheme}://…", f"{allowed}, its port a number") from None
    if parsed.port is not None and not 0 < parsed.port < _PORTS:
        raise _refuse(name, f"{scheme}://…:{parsed.port}", f"{allowed}, its port below {_PORTS}")
    if parsed.host is not None and "@" in parsed.host:
        # The driver would show the end of the password as part of the host.
        raise _refuse(name, f"{scheme}://…", f"{allowed}; an @ in a password is written %40")
    return url


def _seconds(low: float, high: float) -> Callable[[str, object], float]:
    def read(name: str, raw: object) -> float:
        allowed = f"a number of seconds from {low:g} to {high:g}, or a timedelta"
        if isinstance(raw, timedelta):
            value = raw.total_seconds()
        elif isinstance(raw, bool):
            raise _refuse(name, raw, allowed)
        else:
            try:
                value = float(raw)  # type: ignore[arg-type]
            except (TypeError, ValueError):
                raise _refuse(name, raw, allowed) from None
        if not low <= value <= high:
            raise _refuse(name, raw, allowed)
        return value

    return read


def _rate(low: float, high: float) -> Callable[[str, object], float]:
    def read(name: str, raw: object) -> float:
        allowed = f"a number of ticks a second from {low:g} to {high:g}"
        try:
            value = float("nan") if isinstance(raw, bool) else float(str(raw))
        except ValueError:
            raise _refuse(name, raw, allowed) from None
        if not low <= value <= high:
            raise _refuse(name, raw, allowed)
        return value

    return read


def _days(low: int, high: int) -> Callable[[str, object], timedelta]:
    def read(name: str, raw: object) -> timedelta:
        allowed = f"a number of days from {low} to {high}, or a timedelta"
        try:
            days = raw if isinstance(raw, timedelta) else timedelta(days=float(str(raw)))
        except (ValueError, OverflowError):
            raise _refuse(name, raw, allowed) from None
        if not timedelta(days=low) <= days <= timedelta(days=high):
            raise _refuse(name, raw, allowed)
        return days

    return read


def _whole(low: int, high: int) -> Callable[[str, object], int]:
    def read(name: str, raw: object) -> int:
        allowed = f"a whole number from {low} to {high}"
        text = str(raw).strip()
        if isinstance(raw, bool) or not re.fullmatch(r"[0-9]{1,9}", text):
            raise _refuse(name, raw, allowed)
        if not low <= int(text) <= high:
            raise _refuse(name, raw, allowed)
        return int(text)

    return read


def _flag(name: str, raw: object) -> bool:
    words = {"true": True, "1": True, "yes": True, "on": True}
    words |= {"false": False, "0": False, "no": False, "off": False}
    try:
        return words[str(raw).strip().lower()]
    except KeyError:
        raise _refuse(name, raw, "true or false (or 1/0, yes/no, on/off)") from None


def _schema(name: str, raw: object) -> str:
    if not isinstance(raw, str) or not _SCHEMA_NAME.fullmatch(raw):
        raise _refuse(
            name, raw, "a name of up to 48 lower-case letters, digits and _, not first a digit"
        )
    return raw


def _address(name: str, raw: object) -> str:
    match = _ADDRESS.fullmatch(str(raw).strip())
    if match is None or int(match["port"]) >= _PORTS:
        raise _refuse(
            name,
            raw,
            f"host:port, such as {_LOOPBACK}:9540, 0.0.0.0:9540 or [::1]:9540, its port below "
            f"{_PORTS}; without a host it is {_LOOPBACK}, port 0 is any that is free",
        )
    return f"{match['host'] or _LOOPBACK}:{int(match['port'])}"


_READERS: dict[str, Callable[[str, object], Any]] = {
    "url": _url,
    "schema": _schema,
    "lease_ttl": _seconds(1, 3600),
    "renew_every": _seconds(0.1, 1800),
    "hedge_after": _seconds(0.05, 600),
    "batch_size": _whole(1, 10_000),
    "database_timeout": _seconds(0.1, 600),
    "broker_timeout": _seconds(0.1, 600),
    "listen_url": _url,
    "auto_migrate": _flag,
    "guard": _flag,
    "run_lease": _seconds(1, 86_400),
    "max_attempts": _whole(1, 100),
    "resend_after": _seconds(1, 86_400),
    "catch_up_rate": _rate(0.01, 100_000),
    "retention": _days(1, 36_500),
    "http": _address,
    "worker_http": _address,
}
