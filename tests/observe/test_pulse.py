"""When a loop lives, and when it is ready."""

import pytest

from celery_dbbeat.observe import pulse as module
from celery_dbbeat.observe.pulse import Condition, Pulse, stuck_after


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "monotonic", clock)
    return clock


@pytest.fixture
def pulse(clock: Clock) -> Pulse:
    return Pulse(60)


def test_it_lives_from_the_start_and_is_not_ready(pulse: Pulse) -> None:
    assert (pulse.lives, pulse.ready) == (True, False)
    assert pulse.reason == "it has made no pass yet"


def test_it_is_ready_after_a_pass_that_went_well(pulse: Pulse) -> None:
    pulse.found(Condition(ready=True))
    assert (pulse.lives, pulse.ready, pulse.reason) == (True, True, "")


def test_it_lives_as_long_as_passes_fail(pulse: Pulse, clock: Clock) -> None:
    for _ in range(100):
        clock.now += 59
        pulse.found(Condition(ready=False, reason="no database"))
        assert (pulse.lives, pulse.ready, pulse.reason) == (True, False, "no database")


def test_without_a_pass_it_is_stuck(pulse: Pulse, clock: Clock) -> None:
    pulse.found(Condition(ready=True))
    clock.now += 59
    assert pulse.ready
    clock.now += 1
    assert (pulse.lives, pulse.ready) == (False, False)
    assert pulse.reason == "it is stuck: its loop makes no pass"
    pulse.found(Condition(ready=True))
    assert pulse.ready


def test_a_long_rest_is_no_death(pulse: Pulse, clock: Clock) -> None:
    pulse.expect(1200)
    clock.now += 1259
    assert pulse.lives
    clock.now += 1
    assert not pulse.lives


def test_what_may_take_its_time(pulse: Pulse, clock: Clock) -> None:
    with pulse.take_time():
        clock.now += 1e6
        assert pulse.lives
    assert pulse.lives
    clock.now += 60
    assert not pulse.lives


@pytest.mark.parametrize(("ttl", "seconds"), [(1, 60), (10, 60), (3600, 21_600)])
def test_stuck_follows_the_lease(ttl: float, seconds: float) -> None:
    assert stuck_after(ttl) == seconds
