"""The column `exclude`: a JSON array of what does not fire.

    "2026-12-25"                               a day, in the schedule's time zone
    "2026-12-24T18:00"                         a local time, each time that clocks show it
    "2026-12-24T17:00:00Z"                     an instant
    "FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=25,26"  the days that a rule names
    "FREQ=WEEKLY;BYDAY=SU;BYHOUR=2,3"          the times that a rule names, if it names times

A rule that has no DTSTART begins on 1970-01-01.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from functools import lru_cache

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.exclusions import Exclusions, first_not_excluded
from celery_dbbeat.rules.once import read_time
from celery_dbbeat.rules.rrule import Rule, parse_rrule
from celery_dbbeat.rules.rrule_text import read_rule
from celery_dbbeat.rules.trigger import DstCase, Trigger
from celery_dbbeat.rules.zone import find_zone, instants_of

_LONGEST = 100_000
_MOST = 1_000
_MOST_RULES = 20
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_EXAMPLE = '["2026-12-25", "2026-12-24T18:00", "FREQ=YEARLY;BYMONTH=1;BYMONTHDAY=1"]'


@dataclass(frozen=True, slots=True)
class Excluding(Trigger):
    """A trigger without what is excluded."""

    trigger: Trigger
    exclusions: Exclusions

    @property
    def canonical(self) -> str:
        """The expression of the trigger; exclusions stand in a column of their own."""
        return self.trigger.canonical

    def next(self, after: datetime) -> datetime | None:
        """Return the first fire time strictly after the instant."""
        return first_not_excluded(self.trigger, self.exclusions, after)

    def dst_case(self, instant: datetime) -> DstCase:
        """Say what the clocks did at a fire time."""
        return self.trigger.dst_case(instant)


def excluding(trigger: Trigger, exclude: str, zone_name: str) -> Trigger:
    """Return the trigger without what the JSON array names; raise TriggerError if it cannot be."""
    exclusions = read_exclusions(exclude, zone_name)
    return Excluding(trigger, exclusions) if exclusions else trigger


@lru_cache(maxsize=4096)
def read_exclusions(exclude: str, zone_name: str) -> Exclusions:
    """Read the JSON array of a schedule in that time zone."""
    zone = find_zone(zone_name)
    days: set[date] = set()
    instants: set[datetime] = set()
    rules: list[Rule] = []
    day_rules: list[Rule] = []
    for entry in _entries(exclude):
        if "FREQ=" in entry.upper():
            try:
                rule = parse_rrule(entry, zone_name, zone)
            except TriggerError as error:
                raise TriggerError(f"exclude: {error}") from None
            (rules if read_rule(entry).names_a_time else day_rules).append(rule)
            continue
        try:
            if _DAY.fullmatch(entry):
                days.add(date.fromisoformat(entry))
            else:
                instants |= _instants(entry, zone)
        except (ValueError, OverflowError):
            raise TriggerError(
                f"exclude {entry[:60]!r} is not understood: allowed are days, local times, "
                f"instants and recurrence rules, such as {_EXAMPLE}"
            ) from None
    if len(rules) + len(day_rules) > _MOST_RULES:
        raise TriggerError(
            f"exclude has {len(rules) + len(day_rules)} rules: at most {_MOST_RULES}"
        )
    return Exclusions(zone, frozenset(days), frozenset(instants), tuple(day_rules), tuple(rules))


def _entries(exclude: str) -> list[str]:
    if len(exclude) > _LONGEST:
        raise TriggerError(
            f"exclude has {len(exclude)} characters: at most {_LONGEST} are allowed; "
            "a rule names many days at once"
        )
    try:
        entries = json.loads(exclude)
    except (ValueError, RecursionError):
        raise TriggerError(f"exclude {exclude[:60]!r} is not JSON, such as {_EXAMPLE}") from None
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise TriggerError(f"exclude {exclude[:60]!r} is not an array of text, such as {_EXAMPLE}")
    if len(entries) > _MOST:
        raise TriggerError(f"exclude has {len(entries)} entries: at most {_MOST} are allowed")
    return entries


def _instants(entry: str, zone: tzinfo) -> frozenset[datetime]:
    found = read_time(entry)
    return frozenset({found}) if found.tzinfo else instants_of(found, zone)
