"""When there is something to do next, as a replica sees it."""

from datetime import timedelta

from celery_dbbeat.store import cursors, ticks
from celery_dbbeat.store.cursors import Holding
from celery_dbbeat.store.database import Database
from tests.store.kit import EVERYTHING, NOTHING, TTL, Person, dispatch

SOON = timedelta(seconds=-60)
LATER = timedelta(seconds=-120)


def test_with_nothing_there_is_only_the_time(store: Database) -> None:
    seen = cursors.outlook(store, EVERYTHING, "a", TTL)
    assert (seen.held_due, seen.any_due, seen.unsent_since) == (None, None, None)
    assert seen.now <= store.now()


def test_the_earliest_of_the_shards_held_and_of_all(store: Database, person: Person) -> None:
    mine, theirs = person.add_due("mine", "theirs")
    for identity, shard, due in ((mine, 3, LATER), (theirs, 4, SOON)):
        person.make_due(identity, due)
        person.do("UPDATE dbbeat_cursor SET shard = %s WHERE schedule_id = %s", shard, identity)
    seen = cursors.outlook(store, Holding({3: 1}), "a", TTL)
    assert seen.held_due == person.cursor(mine)["due_at"]
    assert seen.any_due == person.cursor(theirs)["due_at"]
    assert cursors.outlook(store, EVERYTHING, "a", TTL).held_due == seen.any_due
    assert cursors.outlook(store, NOTHING, "a", TTL).held_due is None


def test_what_is_paused_is_not_waited_for(store: Database, person: Person) -> None:
    person.add_due("one")
    person.do("UPDATE dbbeat_schedule SET state = 'paused'")
    assert cursors.outlook(store, EVERYTHING, "a", TTL).any_due is None


def test_an_unsent_tick_of_anothers_is_seen_at_once_and_ones_own_after_a_leases_time(
    store: Database, person: Person
) -> None:
    person.add_due("one")
    outgoing = dispatch(store, "a")
    assert cursors.outlook(store, EVERYTHING, "a", TTL).unsent_since is None
    assert cursors.outlook(store, EVERYTHING, "b", TTL).unsent_since is not None
    person.do("UPDATE dbbeat_tick SET claimed_at = now() - %s", TTL + timedelta(seconds=1))
    assert cursors.outlook(store, EVERYTHING, "a", TTL).unsent_since is not None
    ticks.mark_sent(store, outgoing)
    assert cursors.outlook(store, EVERYTHING, "b", TTL).unsent_since is None
