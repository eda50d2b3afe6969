"""Who goes first: changes of hands, and how replicas share the slots out."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta

import psycopg
import pytest

from celery_dbbeat.store import leases
from celery_dbbeat.store.database import Database
from celery_dbbeat.store.leases import Lease, Replica, Standing
from tests.store.conftest import MakeStore
from tests.store.kit import TTL, Person
from tests.support.waiting import wait_until

CHANNEL = "dbbeat_public"
WHOLE = (0, 255)
HOUR = timedelta(hours=1)
WAITING_FOR_LEASES = (
    "SELECT count(*) FROM pg_locks WHERE relation = 'dbbeat_lease'::regclass AND NOT granted"
)


@dataclass(frozen=True)
class Beat:
    """A replica that does nothing but keep its leases."""

    store: Database
    id: str
    listener_pid: int | None = None

    def heartbeat(self, *, ready: bool = True) -> Standing:
        me = Replica(self.id, "host", 1, "0.1.0")
        return leases.heartbeat(
            self.store, me, ready=ready, listener_pid=self.listener_pid, ttl=TTL
        )

    def acquire(self, limit: int = 256) -> tuple[Lease, ...]:
        return leases.acquire(self.store, self.id, TTL, limit)

    def resign(self, keep: int = 0) -> None:
        leases.resign(self.store, self.id, CHANNEL, keep)

    def keep(self) -> None:
        """One turn: renew, then give back the surplus or take what is missing."""
        standing = self.heartbeat()
        if len(standing.leases) > standing.share:
            self.resign(standing.share)
        else:
            self.acquire(standing.share - len(standing.leases))


@pytest.fixture
def beats(make_store: MakeStore) -> list[Beat]:
    return [Beat(make_store(), name) for name in ("a", "b", "c")]


def reslice(store: Database, slots: int) -> None:
    with store.transaction() as transaction:
        leases.reslice(transaction, slots, CHANNEL)


def held(beat: Beat) -> int:
    return len(beat.heartbeat().leases)


def epochs(person: Person) -> list[int]:
    return [row["epoch"] for row in person.do("SELECT epoch FROM dbbeat_lease ORDER BY slot")]


class TestChangeOfHands:
    def test_a_free_lease_is_taken_once(self, beats: list[Beat]) -> None:
        winner, loser, _ = beats
        winner.heartbeat()
        (lease,) = winner.acquire()
        assert (lease.slot, lease.first_shard, lease.last_shard, lease.epoch) == (0, *WHOLE, 1)
        assert loser.acquire() == ()

    def test_while_the_winner_is_taking_it_the_loser_does_not_wait(
        self, beats: list[Beat], person: Person
    ) -> None:
        with person.connection.transaction():
            person.do("SELECT FROM dbbeat_lease FOR UPDATE")
            assert beats[0].acquire() == ()

    def test_renewing_keeps_the_epoch_and_moves_the_end(
        self, beats: list[Beat], person: Person
    ) -> None:
        holder, other, _ = beats
        holder.heartbeat()
        (lease,) = holder.acquire()
        before = person.one("SELECT * FROM dbbeat_lease")
        assert holder.heartbeat().leases == (lease,)
        assert other.heartbeat().leases == ()
        after = person.one("SELECT * FROM dbbeat_lease")
        assert after["expires_at"] > before["expires_at"]
        assert (after["holder"], after["epoch"]) == ("a", 1)

    def test_the_epoch_grows_each_time(self, beats: list[Beat]) -> None:
        seen = []
        for beat in [*beats, *beats]:
            beat.heartbeat()
            seen += [lease.epoch for lease in beat.acquire()]
            beat.resign()
        assert seen == [1, 2, 3, 4, 5, 6]

    def test_one_that_ran_out_is_taken(self, beats: list[Beat], person: Person) -> None:
        late, next_one, _ = beats
        late.heartbeat()
        late.acquire()
        assert next_one.acquire() == ()
        person.do("UPDATE dbbeat_lease SET expires_at = now() - interval '1 ms'")
        assert [lease.epoch for lease in next_one.acquire()] == [2]
        assert late.heartbeat().leases == ()

    def test_one_whose_holder_is_known_to_be_gone_is_taken_at_once(
        self, beats: list[Beat], make_store: MakeStore, person: Person, database_url: str
    ) -> None:
        with closing(Person(database_url)) as listener:
            killed = Beat(make_store(), "killed", listener.pid)
            killed.heartbeat()
            killed.acquire()
            assert beats[0].acquire() == ()
        wait_until(
            lambda: not person.do("SELECT pid FROM pg_stat_activity WHERE pid = %s", listener.pid)
        )
        assert [lease.epoch for lease in beats[0].acquire()] == [2]

    def test_one_whose_holder_left_is_free_at_once(self, beats: list[Beat], person: Person) -> None:
        leaving, next_one, _ = beats
        leaving.heartbeat()
        leaving.acquire()
        leases.leave(leaving.store, leaving.id, CHANNEL)
        assert person.do("SELECT * FROM dbbeat_replica") == []
        assert [lease.epoch for lease in next_one.acquire()] == [2]

    @pytest.mark.parametrize("way", ["resign", "leave", "reslice"])
    def test_the_others_are_told(self, beats: list[Beat], database_url: str, way: str) -> None:
        beats[0].heartbeat()
        beats[0].acquire()
        with closing(Person(database_url)) as listener:
            listener.do(f'LISTEN "{CHANNEL}"')
            if way == "resign":
                beats[0].resign()
            elif way == "leave":
                leases.leave(beats[0].store, "a", CHANNEL)
            else:
                reslice(beats[0].store, 4)
            heard = list(listener.connection.notifies(timeout=5, stop_after=1))
        assert [one.payload for one in heard] == ["lease"]

    def test_a_replica_that_is_not_ready_renews_nothing_and_gets_no_share(
        self, beats: list[Beat]
    ) -> None:
        beat, other, _ = beats
        beat.heartbeat()
        beat.acquire()
        standing = beat.heartbeat(ready=False)
        assert (standing.leases, standing.share) == ((), 0)
        assert other.heartbeat().share == 1


class TestSharing:
    @pytest.mark.parametrize("slots", [1, 2, 3, 7, 256])
    def test_three_replicas_share_evenly(
        self, beats: list[Beat], store: Database, slots: int
    ) -> None:
        reslice(store, slots)
        for beat in beats * 3:
            beat.keep()
        shares = [held(beat) for beat in beats]
        # Those started first get what is left over.
        assert shares == [slots // 3 + (position < slots % 3) for position in range(3)]

    def test_what_a_leaver_held_goes_to_the_others(
        self, beats: list[Beat], store: Database
    ) -> None:
        reslice(store, 8)
        for beat in beats * 3:
            beat.keep()
        leases.leave(store, "a", CHANNEL)
        for beat in beats[1:] * 2:
            beat.keep()
        assert [held(beat) for beat in beats[1:]] == [4, 4]

    def test_holdings_do_not_overlap_and_leave_no_shard_out(
        self, beats: list[Beat], store: Database
    ) -> None:
        reslice(store, 5)
        for beat in beats * 3:
            beat.keep()
        shards = [
            shard for beat in beats for shard in leases.holding(beat.heartbeat().leases).epochs
        ]
        assert sorted(shards) == list(range(256))


class TestReslice:
    @pytest.mark.parametrize("slots", [1, 2, 3, 255, 256])
    def test_the_shards_are_cut_into_nearly_equal_ranges(
        self, store: Database, person: Person, slots: int
    ) -> None:
        reslice(store, slots)
        rows = person.do("SELECT * FROM dbbeat_lease ORDER BY slot")
        ranges = [range(row["first_shard"], row["last_shard"] + 1) for row in rows]
        assert [shard for one in ranges for shard in one] == list(range(256))
        assert len(ranges) == slots
        assert max(map(len, ranges)) - min(map(len, ranges)) <= 1

    def test_epochs_go_on_from_the_highest(
        self, beats: list[Beat], store: Database, person: Person
    ) -> None:
        beat = beats[0]
        reslice(store, 3)
        for _ in range(4):
            beat.acquire(1)
            beat.resign()
        highest = max(epochs(person))
        reslice(store, 2)
        assert epochs(person) == [highest, highest]
        reslice(store, 5)
        assert {lease.epoch for lease in beat.acquire()} == {highest + 1}

    def test_the_holder_of_before_holds_nothing(self, beats: list[Beat], store: Database) -> None:
        beats[0].heartbeat()
        beats[0].acquire()
        reslice(store, 1)
        assert beats[0].heartbeat().leases == ()

    def test_a_renewal_waits_for_a_reslice_under_way_and_then_holds_nothing(
        self, beats: list[Beat], store: Database, person: Person
    ) -> None:
        beats[0].heartbeat()
        beats[0].acquire()
        with ThreadPoolExecutor(1) as pool:
            with store.transaction() as transaction:
                leases.reslice(transaction, 2, CHANNEL)
                renewal = pool.submit(beats[0].heartbeat)
                wait_until(lambda: person.value(WAITING_FOR_LEASES) == 1)
            assert renewal.result(5).leases == ()

    def test_no_schedule_and_no_cursor_is_touched(self, store: Database, person: Person) -> None:
        person.add_due("one", "two")
        look = (
            "SELECT s.id, s.xmin::text AS schedule, c.xmin::text AS cursor, c.ctid::text"
            " FROM dbbeat_schedule s JOIN dbbeat_cursor c ON c.schedule_id = s.id ORDER BY s.id"
        )
        before = person.do(look)
        reslice(store, 16)
        assert person.do(look) == before

    @pytest.mark.parametrize(("first", "last"), [(-1, 0), (5, 4), (0, 256)])
    def test_a_range_outside_the_shards_is_refused(
        self, person: Person, first: int, last: int
    ) -> None:
        with pytest.raises(psycopg.errors.CheckViolation, match="dbbeat_lease_shards"):
            person.do("UPDATE dbbeat_lease SET first_shard = %s, last_shard = %s", first, last)

    def test_replicas_long_silent_are_forgotten(self, beats: list[Beat], person: Person) -> None:
        for beat in beats:
            beat.heartbeat()
        person.do("UPDATE dbbeat_replica SET seen_at = now() - %s WHERE id = 'b'", 25 * HOUR)
        beats[0].store.run("forget_replicas")
        assert [row["id"] for row in person.do("SELECT id FROM dbbeat_replica ORDER BY id")] == [
            "a",
            "c",
        ]
