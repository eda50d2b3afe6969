"""All interleavings of two replicas and two worker processes, with a crash at any step.

The decisions are the real ones: `rules.plan.plan` and `rules.recovery.judge`. What statements do to
rows is told in `beat.py` and `work.py`, a step each. With every guard in its place nothing is lost
and nothing is doubled, in whichever order things happen; without any one of them, something is.
"""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import combinations_with_replacement

import pytest

from tests.model import beat, faults, work
from tests.model.explorer import Explored, explore
from tests.model.world import Faults, Replica, Worker, World

FIRES = 2
#: Pairs of faults that have the most to do with each other; `--long` tries all pairs.
CLOSE = (
    Faults(beat_dies=2),
    Faults(beat_dies=1, worker_freezes=1),
    Faults(worker_freezes=1, message_doubled=1),
    Faults(beat_dies=1, broker_emptied=1),
)


def every_pair() -> Iterator[Faults]:
    """Any two faults."""
    for pair in combinations_with_replacement(Faults._fields, 2):
        yield Faults(**Counter(pair))


def steps(world: World, fires: int, without: frozenset[str]) -> Iterator[beat.Step]:
    """All that can happen next."""
    schedule, _ = beat.beginning(fires)
    if world.now < fires:
        yield "time passes", world._replace(now=world.now + 1)
    for replica in world.replicas:
        yield from beat.steps(world, replica, schedule, without)
    for worker in dict.fromkeys(world.workers):
        yield from work.steps(world, worker, without)
    yield from faults.steps(world)


def wrong(world: World, at_rest: bool, fires: int) -> str | None:  # noqa: FBT001 - the explorer's
    """What must never be; and what must not be left when nothing more happens."""
    for fire in range(fires):
        if world.effects.count(fire) > 1:
            return f"fire time {fire} has {world.effects.count(fire)} effects"
        if fire in world.effects and fire in world.not_sent:
            return f"fire time {fire} has an effect, and a reason why not"
        dead = any(row.fire == fire and row.state == "dead" for row in world.ticks)
        if at_rest and not (fire in world.effects or fire in world.not_sent or dead):
            return f"fire time {fire} is lost"
    return None


def explored(possible: Faults, *without: str, fires: int = FIRES) -> Explored[World]:
    """All that can come of two replicas, two worker processes and these faults."""
    _, cursor = beat.beginning(fires)
    start = World(possible, cursor, (Replica("beat A"), Replica("beat B")), (Worker(), Worker()))
    return explore(
        start,
        partial(steps, fires=fires, without=frozenset(without)),
        partial(wrong, fires=fires),
    )


@pytest.mark.parametrize("fault", Faults._fields)
def test_no_order_of_things_loses_or_doubles_anything(fault: str) -> None:
    found = explored(Faults(**{fault: 1}))
    assert found.wrong is None, found


@pytest.mark.timeout(1200)
def test_nor_with_two_faults(long_run: bool) -> None:  # noqa: FBT001 - a fixture
    for possible in every_pair() if long_run else CLOSE:
        found = explored(possible)
        assert found.wrong is None, (possible, str(found))


@pytest.mark.parametrize(
    ("without", "possible", "fires", "trouble"),
    [
        ("the claim's lock", Faults(), 2, "an effect, and a reason why not"),
        ("the claim's lock, one id a fire time", Faults(), 1, "has 2 effects"),
        ("record before publish", Faults(beat_dies=1), 2, "an effect, and a reason why not"),
        ("adoption", Faults(beat_dies=1), 2, "is lost"),
        ("publish before mark, recovery", Faults(beat_dies=1), 2, "is lost"),
        ("recovery", Faults(worker_dies=1), 2, "is lost"),
        ("recovery", Faults(broker_emptied=1), 2, "is lost"),
        ("the guard", Faults(message_doubled=1), 2, "has 2 effects"),
        ("the fence", Faults(worker_freezes=1), 2, "has 2 effects"),
    ],
)
def test_without_a_guard_something_is(
    without: str, possible: Faults, fires: int, trouble: str
) -> None:
    found = explored(possible, *without.split(", "), fires=fires)
    assert trouble in (found.wrong or ""), found
