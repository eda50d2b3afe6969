"""The scheduler class that Celery runs; the only import of `celery.beat`.

It keeps Celery's contract and leaves the work to the replica:

- the banner builds one with `lazy=True`, which touches nothing;
- `tick` returns soon, on a standby too, so that beat answers `inspect ping`; it waits inside,
  where a notification can end the wait, and asks to be called again at once;
- `close` may come twice, from a signal handler or not; while a pass runs, signals wait for its
  end.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery.beat import Scheduler
from sqlalchemy import make_url

from celery_dbbeat import embedded
from celery_dbbeat.beat.replica import Replica
from celery_dbbeat.beat.signals import deferred_signals
from celery_dbbeat.beat.static import code_schedules
from celery_dbbeat.errors import DbbeatError
from celery_dbbeat.settings import Settings


@contextmanager
def _one_line() -> Iterator[None]:
    """What is set wrongly ends beat, and is told without a traceback."""
    try:
        yield
    except DbbeatError as error:
        raise SystemExit(f"Error: {error}") from None


class DatabaseScheduler(Scheduler):
    """Celery beat with its schedules in Postgres, as one of any number of replicas."""

    max_interval = 5

    _replica: Replica | None = None

    def setup_schedule(self) -> None:
        """Read the settings and the app's own entries; the first tick connects."""
        with _one_line():
            settings = embedded.resolve(Settings.read(self.app.conf))
        self.data: dict[str, Any] = {}
        self.install_default_entries(self.app.conf.beat_schedule)
        entries = {**self.data, **self.app.conf.beat_schedule}
        self._replica = Replica(self.app, settings, code_schedules(self.app, entries))

    def update_from_dict(self, dict_: dict[str, Any]) -> None:
        """Take entries as they are: the replica stores them as rows."""
        self.data.update(dict_)

    def tick(self, *_: object, **__: object) -> float:
        """Send what is due, then wait for the next thing, `max_interval` at the most."""
        replica = self._replica
        if replica is None:
            return float(self.max_interval)
        with deferred_signals():
            seconds = replica.step()
        if seconds > 0:
            replica.wait(min(seconds, float(self.max_interval)))
        return 0.0

    def close(self) -> None:
        """Hand over to the other replicas."""
        if self._replica is not None:
            self._replica.close()
        super().close()

    @property
    def info(self) -> str:
        """For the banner: where the schedules are."""
        with _one_line():
            url = Settings.read(self.app.conf).url
        shown = url if embedded.is_embedded(url) else make_url(url).render_as_string()
        return f"    . db -> {shown}"
