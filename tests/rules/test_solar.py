import sys
from datetime import datetime, timedelta

import pytest
from celery import Celery
from celery.schedules import solar as celery_solar
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.solar import _EVENTS, parse_solar
from celery_dbbeat.rules.trigger import parse_trigger
from tests.rules.oracle import UTC
from tests.rules.test_cron import steady

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def test_it_has_the_events_of_celery() -> None:
    assert set(_EVENTS) == celery_solar._all_events


@given(
    st.sampled_from(sorted(_EVENTS)),
    st.floats(-65, 65).map(lambda x: round(x, 4)),
    st.floats(-180, 180).map(lambda x: round(x, 4)),
    st.integers(0, 30 * 365 * 86400),
)
@settings(steady, max_examples=200)
def test_it_fires_when_celerys_own_does(
    event: str, latitude: float, longitude: float, seconds: int
) -> None:
    at = datetime(2010, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    theirs = celery_solar(
        event, latitude, longitude, nowfun=lambda: at, app=Celery(set_as_current=False)
    )
    expected = at + theirs.remaining_estimate(at)
    found = parse_trigger("solar", f"{event} {latitude:.4f} {longitude:.4f}").next(at)
    assert found is not None
    assert abs(found - expected) <= 0.75 * SECOND


@given(
    st.sampled_from(sorted(_EVENTS)),
    st.floats(-89, 89).map(lambda x: round(x, 2)),
    st.floats(-180, 180).map(lambda x: round(x, 2)),
    st.integers(0, 30 * 365 * 86400),
    st.floats(0, 0.999),
)
@settings(steady, max_examples=100)
def test_events_increase_and_do_not_depend_on_the_start(
    event: str, latitude: float, longitude: float, seconds: int, share: float
) -> None:
    trigger = parse_trigger("solar", f"{event} {latitude:.2f} {longitude:.2f}")
    at = datetime(2010, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    for _ in range(3):
        found = trigger.next(at)
        assert found is not None
        assert found > at
        assert trigger.next(at + (found - at) * share) == found
        assert trigger.next(found - SECOND) == found
        at = found


def test_the_sun_stays_down_for_months_in_the_arctic() -> None:
    found = parse_trigger("solar", "sunrise 78.22 15.65").next(NOW)
    assert found is not None
    assert (found.month, found.day) == (2, 15)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not understood"),
        ("sunrise", "is not understood"),
        ("sunrise 52.5", "is not understood"),
        ("sunrise 52.5 13.4 5", "is not understood"),
        ("moonrise 52.5 13.4", "with one of dawn_astronomical"),
        ("Sunrise 52.5 13.4", "is not understood"),
        ("sunrise nan 13.4", "is not understood"),
        ("sunrise inf 13.4", "is not understood"),
        ("sunrise 52,5 13,4", "is not understood"),
        ("sunrise 52:30 13:24", "is not understood"),
        ("sunrise \u0665 13", "is not understood"),
        ("sunrise 90 0", "latitude has to be from -89 to 89"),
        ("sunrise -89.5 0", "latitude has to be from -89 to 89"),
        ("sunrise 0 180.1", "longitude from -180 to 180"),
        ("sunrise " + "9" * 5000 + " 0", "is not understood"),
    ],
)
def test_it_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(TriggerError) as refused:
        parse_trigger("solar", text)
    assert why in str(refused.value)
    assert repr(text[:60]) in str(refused.value)


def test_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ephem", None)
    with pytest.raises(TriggerError, match=r"install celery-dbbeat\[solar\]"):
        parse_solar("sunrise 52.5 13.4")
