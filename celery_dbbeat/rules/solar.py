"""Sunrise, sunset, noon and the twilights at a place, with the events of `celery.schedules.solar`.

A search for the next event gives slightly different microseconds from different starts, and could
find the same sunrise twice. Fire times are identities, so time is cut into windows of one mean
solar day, placed so that the event comes in the middle of its window; each window is searched
from its own beginning and the answer is rounded to a second. A window holds one event, or none
where the sun does not get that far for weeks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.trigger import Trigger
from celery_dbbeat.rules.zone import LAST_YEAR, UTC

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
_BEGIN = datetime(1900, 1, 1, tzinfo=UTC)
_END = datetime(LAST_YEAR - 1, 1, 1, tzinfo=UTC)
# Each event comes at least once a year, up to the latitude that is allowed.
_WINDOWS = 370
# Nearer to a pole the one rising of the year is not found in every year.
_FURTHEST = 89
_HALF_TURN = 180

_DEGREES = r"([+-]?[0-9]{1,3}(?:\.[0-9]{1,12})?)"
_PLACE = re.compile(rf"([a-z_]+)\s+{_DEGREES}\s+{_DEGREES}")


class _Event(NamedTuple):
    search: str
    horizon: str
    window_starts: int  # the hour of mean solar time
    options: Mapping[str, bool] = MappingProxyType({})


# Twilight begins and ends by the centre of the sun, day by its upper rim.
_CENTRE = MappingProxyType({"use_center": True})
_EVENTS = {
    "dawn_astronomical": _Event("next_rising", "-18", -6, _CENTRE),
    "dawn_nautical": _Event("next_rising", "-12", -6, _CENTRE),
    "dawn_civil": _Event("next_rising", "-6", -6, _CENTRE),
    "sunrise": _Event("next_rising", "-0:34", -6),
    "solar_noon": _Event("next_transit", "0", 0),
    "sunset": _Event("next_setting", "-0:34", 6),
    "dusk_civil": _Event("next_setting", "-6", 6, _CENTRE),
    "dusk_nautical": _Event("next_setting", "-12", 6, _CENTRE),
    "dusk_astronomical": _Event("next_setting", "-18", 6, _CENTRE),
}


@dataclass(frozen=True, slots=True)
class Solar(Trigger):
    """An event of the sun at a place in decimal degrees."""

    event: str
    latitude: float
    longitude: float

    @property
    def canonical(self) -> str:
        """The event and the place."""
        return f"{self.event} {self.latitude:.12g} {self.longitude:.12g}"

    def next(self, after: datetime) -> datetime | None:
        """Return the first fire time strictly after the instant."""
        after = max(after, _BEGIN)
        if after >= _END:
            return None
        window = (after - _window_start(self, 0)) // _DAY
        for later in range(window, window + _WINDOWS):
            found = _event_in(self, later)
            if found is not None and found > after:
                return found
        return None


def parse_solar(expression: str) -> Solar:
    """Read `event latitude longitude`."""
    try:
        import ephem  # noqa: F401, PLC0415
    except ImportError:
        raise TriggerError(
            f"solar {expression[:60]!r} needs ephem: install celery-dbbeat[solar]"
        ) from None
    found = _PLACE.fullmatch(expression.strip())
    if found is None or found[1] not in _EVENTS:
        raise TriggerError(
            f"solar {expression[:60]!r} is not understood: it has to be 'event latitude longitude' "
            f"in decimal degrees, such as 'sunrise 52.52 13.40', with one of {', '.join(_EVENTS)}"
        )
    solar = Solar(found[1], float(found[2]), float(found[3]))
    if abs(solar.latitude) > _FURTHEST or abs(solar.longitude) > _HALF_TURN:
        raise TriggerError(
            f"solar {expression[:60]!r} is out of range: latitude has to be from "
            f"-{_FURTHEST} to {_FURTHEST}, longitude from -{_HALF_TURN} to {_HALF_TURN}"
        )
    return solar


def _window_start(solar: Solar, number: int) -> datetime:
    hours = _EVENTS[solar.event].window_starts - solar.longitude / 15
    return _EPOCH + timedelta(days=number, hours=hours)


@lru_cache(maxsize=65536)
def _event_in(solar: Solar, window: int) -> datetime | None:
    import ephem  # noqa: PLC0415

    event = _EVENTS[solar.event]
    # An observer changes while it searches, so each search gets its own.
    observer = ephem.Observer()
    observer.lat, observer.lon = str(solar.latitude), str(solar.longitude)
    observer.elevation, observer.pressure, observer.horizon = 0, 0, event.horizon
    start = ephem.Date(_window_start(solar, window).replace(tzinfo=None))
    try:
        found = getattr(observer, event.search)(ephem.Sun(), start=start, **event.options)
    except ephem.CircumpolarError:
        return None
    instant: datetime = found.datetime().replace(tzinfo=UTC) + timedelta(seconds=0.5)
    return instant.replace(microsecond=0)
