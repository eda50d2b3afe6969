"""Every error this package raises.

DbbeatError
├── SettingsError          a setting has a value that is not allowed
├── ScheduleError          a schedule cannot be used as it is written
│   └── TriggerError       its *when* cannot be understood, or never comes
├── SchemaError            the tables are missing, older or newer than this code
├── DatabaseUnavailable    Postgres cannot be reached, or did not answer in time
├── BrokerUnavailable      the broker cannot be reached, or did not answer in time
└── EmbeddedError          the embedded Postgres cannot be started

Each message says what was wrong, with which value, and what is allowed.
"""


class DbbeatError(Exception):
    """The root: catch this to catch whatever this package raises."""


class SettingsError(DbbeatError, ValueError):
    """A setting has a value that is not allowed."""


class ScheduleError(DbbeatError, ValueError):
    """A schedule cannot be used as it is written."""


class TriggerError(ScheduleError):
    """The *when* of a schedule cannot be understood, or never comes."""


class SchemaError(DbbeatError):
    """The tables are missing, older or newer than this code."""


class DatabaseUnavailable(DbbeatError):
    """Postgres cannot be reached, or did not answer in time."""


class BrokerUnavailable(DbbeatError):
    """The broker cannot be reached, or did not answer in time."""


class EmbeddedError(DbbeatError):
    """The embedded Postgres cannot be started."""
