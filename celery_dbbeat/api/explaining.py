"""Why a schedule did or did not run at an instant: the facts, and one answer in words.

The *when* that was in force then tells whether it was a fire time; the history tells what became of
it; the audit tells who is to be asked where neither does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from celery_dbbeat.api.fields import read_instant
from celery_dbbeat.api.words import by, outcome, shown
from celery_dbbeat.errors import ScheduleError
from celery_dbbeat.rules.completeness import Decided
from celery_dbbeat.rules.firetimes import fire_times, fires_at, last_before
from celery_dbbeat.rules.schedule import Cursor
from celery_dbbeat.rules.story import Stretch, in_force
from celery_dbbeat.rules.tick import due_at, task_id
from celery_dbbeat.store import audit, history
from celery_dbbeat.store.audit import Change, Story
from celery_dbbeat.store.database import Transaction
from celery_dbbeat.store.history import HistoryEntry


@dataclass(frozen=True, slots=True)
class Explanation:
    """What became of one instant of a schedule; `text` says it in words.

    `verdict` is the state of its tick or of its reason (`sent`, `missed`, …), or what it is
    instead: `not_a_fire_time`, `not_created`, `unknown` (before the audit began), `deleted`,
    `paused`, `finished`, `invalid`, `edited`, `to_come`, `waiting`, `under_way`, `lost`.
    `previous` and `following` are the fire times next to it. `entry` is the tick or the range,
    `changes` are what the answer rests on; `dst` is `gap` or `fold` where clocks changed there.
    """

    schedule: str
    schedule_id: UUID
    at: datetime
    verdict: str
    fire_time: bool
    kind: str | None = None
    expression: str | None = None
    timezone: str | None = None
    dst: str | None = None
    previous: datetime | None = None
    following: datetime | None = None
    entry: HistoryEntry | None = None
    changes: tuple[Change, ...] = ()
    sentences: tuple[str, ...] = field(default=(), repr=False)

    @property
    def text(self) -> str:
        """The answer in words."""
        return " ".join(self.sentences)

    def saying(
        self, verdict: str, *sentences: str, changes: Sequence[Change] = ()
    ) -> "Explanation":
        """The same, and more."""
        return replace(
            self,
            verdict=verdict,
            sentences=(*self.sentences, *sentences),
            changes=(*self.changes, *changes),
        )


def explain(transaction: Transaction, name: str, at: datetime | str) -> Explanation:
    """Look up all that is known of this instant, and say it."""
    now = transaction.run("database_now").one()["now"]
    stories = audit.stories(transaction, audit.bearers(transaction, name))
    instant = _instant(at, stories)
    story = _which(stories, name, instant)
    blank = Explanation(story.name, story.schedule_id, instant, "unknown", fire_time=False)
    stretch = in_force(story.stretches, instant)
    if stretch is None:
        return _outside(story, blank)
    entries = history.decided_at(transaction, story.schedule_id, instant)
    return _inside(story, stretch, _with_when(blank, stretch), entries, now)


def _instant(at: datetime | str, stories: Sequence[Story]) -> datetime:
    zones = [one.schedule.timezone for story in stories for one in story.stretches]
    instant = read_instant("at", at, zones[-1] if zones else "UTC")
    if instant is None:
        raise ScheduleError("at is None; allowed is a datetime with a time zone, or text")
    return instant


def _which(stories: Sequence[Story], name: str, instant: datetime) -> Story:
    """Of several that had the name: the one that was there then, and that has it best of all."""

    def fit(story: Story) -> tuple[bool, bool, datetime]:
        begins = story.turns[0].at
        return in_force(story.stretches, instant) is not None, story.name == name, begins

    return max(stories, key=fit)


def _with_when(blank: Explanation, stretch: Stretch) -> Explanation:
    schedule = stretch.schedule
    blank = replace(
        blank, kind=schedule.kind, expression=schedule.expression, timezone=schedule.timezone
    )
    try:
        fires = fires_at(schedule, blank.at)
        dst = schedule.trigger.dst_case(blank.at) if fires else "none"
        return replace(
            blank,
            fire_time=fires,
            dst=None if dst == "none" else dst,
            previous=last_before(schedule, blank.at),
            following=next(fire_times(schedule, blank.at), None),
        )
    except ScheduleError:
        return blank


def _outside(story: Story, blank: Explanation) -> Explanation:
    first, last = _change(story.turns[0].change), _change(story.turns[-1].change)
    if blank.at <= first.at:
        if first.action == "found":
            return blank.saying(
                "unknown",
                f"What {blank.schedule!r} was at {shown(blank.at)} is not known: "
                f"changes are kept since {shown(first.at)}.",
                changes=[first],
            )
        return blank.saying(
            "not_created",
            f"At {shown(blank.at)} there was no schedule {blank.schedule!r} yet: {by(first)}.",
            changes=[first],
        )
    return blank.saying(
        "deleted",
        f"At {shown(blank.at)} there was no schedule {blank.schedule!r} any more: {by(last)}.",
        changes=[last],
    )


def _inside(
    story: Story,
    stretch: Stretch,
    blank: Explanation,
    entries: Sequence[HistoryEntry],
    now: datetime,
) -> Explanation:
    own = [one for one in entries if _speaks(one, story.schedule_id)]
    others = [one for one in entries if one not in own]
    said = blank.saying("", *(_fires(blank, stretch)))
    if not blank.fire_time and not own:
        answer = _no_fire_time(story, stretch, said)
    elif own:
        answer = replace(said.saying(own[0].state, *outcome(own[0])), entry=own[0])
    elif not stretch.active:
        answer = _inactive(stretch, said)
    else:
        answer = _undecided(story, stretch, said, now)
    for one in others:
        answer = answer.saying(answer.verdict, f"Besides, of its own: {' '.join(outcome(one))}")
    return answer


def _speaks(entry: HistoryEntry, schedule_id: UUID) -> bool:
    row = Decided(entry.nominal, entry.last, entry.task_id, entry.state)
    return row.counts(schedule_id)


def _fires(blank: Explanation, stretch: Stretch) -> list[str]:
    when = f"{blank.kind} {blank.expression!r} in {blank.timezone}"
    if stretch.begun.action == "update":
        when += f", in force since {shown(stretch.since)}"
    verb = "is" if blank.fire_time else "is not"
    said = [f"{shown(blank.at)} {verb} a fire time of {blank.schedule!r} ({when})."]
    if blank.dst == "gap":
        said.append("It stands for a local time that clocks skipped: the first instant after it.")
    if blank.dst == "fold":
        said.append("Clocks show this local time twice that day.")
    return said


def _no_fire_time(story: Story, stretch: Stretch, said: Explanation) -> Explanation:
    before = shown(said.previous) if said.previous else "none"
    after = shown(said.following) if said.following else "none"
    answer = said.saying("not_a_fire_time", f"The one before is {before}, the one after {after}.")
    latest = story.stretches[-1]
    if latest is not stretch and _would_fire(latest, said.at):
        change = _change(latest.begun.change)
        answer = answer.saying(
            "not_a_fire_time",
            f"It would be one by what counts since then: {by(change)}.",
            changes=[change],
        )
    if not stretch.active:
        return _inactive(stretch, answer, verdict="not_a_fire_time")
    return answer


def _would_fire(stretch: Stretch, instant: datetime) -> bool:
    try:
        return fires_at(stretch.schedule, instant)
    except ScheduleError:
        return False


def _inactive(stretch: Stretch, said: Explanation, verdict: str | None = None) -> Explanation:
    change = _change(stretch.begun.change)
    sentence = f"It was not active: {stretch.state}, {by(change)}."
    return said.saying(verdict or stretch.state, sentence, changes=[change])


def _undecided(story: Story, stretch: Stretch, said: Explanation, now: datetime) -> Explanation:
    identity = task_id(story.schedule_id, said.at)
    due = due_at(identity, said.at, stretch.schedule.jitter)
    if stretch.owes(said.at) and not stretch.may_end_early:
        return said.saying(
            "lost",
            "There is neither a tick nor a reason for it in the history, and beat has gone past "
            "it: it was lost, or its history is older than what is kept.",
        )
    if stretch.ended is not None and not stretch.pending:
        change = _change(stretch.ended.change)
        verdict = stretch.ending or "edited"
        sentence = f"Beat had not come to it when the schedule changed: {by(change)}."
        return said.saying(verdict, sentence, changes=[change])
    if due > now:
        jitter = f", with jitter at {shown(due)}" if due != said.at else ""
        return said.saying("to_come", f"It is still to come{jitter}.")
    waits = _waits(story.cursor, said.at)
    if waits is not None:
        return said.saying("waiting", waits)
    return said.saying("under_way", "It is due, and beat has not come to it yet.")


def _waits(cursor: Cursor | None, at: datetime) -> str | None:
    """What holds it back, and since when."""
    if cursor is None or cursor.nominal_at is None or cursor.waits_since is None:
        return None
    who = "It is due, and"
    if cursor.nominal_at < at:
        who = f"It is due, and comes after that of {shown(cursor.nominal_at)}, which"
    if cursor.waits_for == "run":
        return f"{who} waits for an earlier run to end, since {shown(cursor.waits_since)}."
    return f"{who} waits for its turn among late ticks, since {shown(cursor.waits_since)}."


def _change(change: object) -> Change:
    if not isinstance(change, Change):
        raise TypeError(f"{change!r} is not a change")
    return change
