"""The checker itself: whatever could be wrong, it sees."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from uuid import UUID, uuid4, uuid5

import pytest

from tests.faults.checker import Report, check
from tests.faults.inbox import Received
from tests.faults.tables import Tables

SEND = """
    INSERT INTO dbbeat_tick (schedule_id, nominal_at, task_id, state, due_at, sent_at, replica)
    VALUES (%(schedule)s, %(at)s, %(task_id)s, 'sent', %(at)s, now(), 'test')
"""
EXCUSE = """
    INSERT INTO dbbeat_tick
        (schedule_id, nominal_at, last_at, task_id, state, due_at, replica, reason)
    SELECT %(schedule)s, %(at)s, %(until)s, gen_random_uuid(), 'missed', %(at)s, 'test', %(reason)s
"""
AT = [datetime(2026, 1, 1, 12, 0, second, tzinfo=timezone.utc) for second in range(6)]


class Story:
    """One schedule that fires at each of AT but the last, where its cursor stands."""

    def __init__(self, url: str) -> None:
        self.tables = Tables(url)
        (self.schedule,) = self.tables.add("story")
        self.tables.rows(
            "UPDATE dbbeat_schedule SET created_at = %(at)s - interval '0.5 s'", at=AT[0]
        )
        self.tables.rows("UPDATE dbbeat_cursor SET nominal_at = %(at)s", at=AT[-1])
        self.received: list[Received] = []

    def send(self, at: datetime, task_id: UUID | None = None) -> None:
        task_id = task_id or uuid5(self.schedule, at.isoformat())
        self.tables.rows(SEND, schedule=self.schedule, at=at, task_id=task_id)
        now = datetime.now(timezone.utc)
        self.received.append(Received(task_id, "task", "story-1", at, "scheduled", now))

    def send_all(self, but: Sequence[datetime] = ()) -> None:
        for at in AT[:-1]:
            if at not in but:
                self.send(at)

    def excuse(self, at: datetime, until: datetime | None, reason: str | None = "late") -> None:
        self.tables.rows(EXCUSE, schedule=self.schedule, at=at, until=until, reason=reason)

    def report(self) -> Report:
        return check(self.tables, self.received)


@pytest.fixture
def story(database_url: str) -> Story:
    return Story(database_url)


def test_a_whole_story_passes(story: Story) -> None:
    story.send_all(but=AT[1:4])
    story.excuse(AT[1], AT[2])
    story.excuse(AT[3], None)
    report = story.report()
    report.check()
    assert (report.expected, report.sent, report.not_sent, report.doubled) == (5, 2, 3, 0)


def test_nothing_at_all_does_not_pass(database_url: str) -> None:
    with pytest.raises(AssertionError, match="nothing to do"):
        check(Tables(database_url), []).check()


@pytest.mark.parametrize("at", AT[:-1])
def test_a_lost_fire_time_is_seen(story: Story, at: datetime) -> None:
    story.send_all(but=[at])
    assert story.report().lost == [(story.schedule, at)]
    with pytest.raises(AssertionError, match="lost"):
        story.report().check()


def test_ids_are_one_a_fire_time_and_the_right_one(story: Story) -> None:
    other = uuid4()
    story.send_all()
    story.send(AT[2], other)
    report = story.report()
    assert (report.two_ids, report.wrong_ids) == ([(story.schedule, AT[2])], [other])


def test_sent_and_not_sent_contradict_each_other(story: Story) -> None:
    story.send_all()
    story.excuse(AT[1], AT[2], reason=None)
    report = story.report()
    assert report.sent_and_not_sent == [(story.schedule, at) for at in AT[1:3]]
    assert report.without_reason == [(story.schedule, AT[1])]


def test_messages_and_ticks_belong_together(story: Story) -> None:
    story.send_all()
    lost, moved, *rest = story.received
    stray = replace(rest[0], task_id=uuid4())
    story.received = [*rest, rest[-1], stray, replace(moved, nominal_at=AT[-1])]
    report = story.report()
    assert report.not_arrived == [lost.task_id]
    assert report.stray == [stray.task_id, moved.task_id]
    assert report.doubled == 1
