"""Every error this package raises.

DbbeatError
├── SettingsError          a setting has a value that is not allowed
├── ScheduleError          a schedule cannot be used as it is written
│   ├── TriggerError       its *when* cannot be understood, or never comes
│   ├── FieldError         one of its fields has a value that is not allowed; `field` says which
│   ├── NameTaken          another schedule has that name
│   ├── OwnedByCode        the app's code says what it is, so it is changed there
│   └── VersionConflict    somebody else changed it in between
├── NotFound               no schedule has that name, or no dead tick that id
├── SchemaError            the tables are missing, older or newer than this code
├── DatabaseUnavailable    Postgres cannot be reached, or did not answer in time
├── BrokerUnavailable      the broker cannot be reached, or did not answer in time
├── OnceError              `once` cannot be used like that
├── StaleRun               this run lost its tick to another; what it did is rolled back
├── AlreadyDone            the effect of this tick is there already; what was done again is not
└── EmbeddedError          the embedded Postgres cannot be started

Each message says what was wrong, with which value, and what is allowed.
"""

from celery.exceptions import Ignore


class DbbeatError(Exception):
    """The root: catch this to catch whatever this package raises."""


class SettingsError(DbbeatError, ValueError):
    """A setting has a value that is not allowed."""


class ScheduleError(DbbeatError, ValueError):
    """A schedule cannot be used as it is written."""


class TriggerError(ScheduleError):
    """The *when* of a schedule cannot be understood, or never comes."""


class FieldError(ScheduleError):
    """One field of a schedule has a value that is not allowed.

    `field` is the name of the argument, as of `Schedules.create`.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class NameTaken(ScheduleError):
    """Another schedule has that name."""


class OwnedByCode(ScheduleError):
    """The app's `beat_schedule` says what this schedule is, so it is changed there."""


class VersionConflict(ScheduleError):
    """Somebody else changed the schedule after it was read."""


class NotFound(DbbeatError, LookupError):
    """No schedule has that name, or no dead tick that task id."""


class SchemaError(DbbeatError):
    """The tables are missing, older or newer than this code."""


class DatabaseUnavailable(DbbeatError):
    """Postgres cannot be reached, or did not answer in time."""


class BrokerUnavailable(DbbeatError):
    """The broker cannot be reached, or did not answer in time."""


class EmbeddedError(DbbeatError):
    """The embedded Postgres cannot be started."""


class OnceError(DbbeatError):
    """`once` cannot be used like that."""


class StaleRun(DbbeatError, Ignore):
    """A run that lost its tick to another: what it did is rolled back, no result is stored."""


class AlreadyDone(DbbeatError, Ignore):
    """The effect of this tick is there already: what was done again is rolled back."""
