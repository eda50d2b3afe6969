"""What a worker process can do next: get, take, commit the effect, acknowledge."""

from collections.abc import Iterator

from tests.model.beat import Step
from tests.model.world import Message, Run, Worker, World


def steps(world: World, me: Worker, without: frozenset[str]) -> Iterator[Step]:
    """All that this worker process can do next; `without` names guards that are left out."""
    if me.at == "idle":
        for message in dict.fromkeys(world.messages):
            got = me._replace(at="got", message=message)
            yield f"a worker gets {message.fire}", world.take(message).worker(me, got)
    elif me.at == "got":
        yield _take(world, me, _message(me), without)
    elif me.at == "took":
        yield _effect(world, me, _message(me), without)
    elif me.at == "done":
        yield "a worker acknowledges", world.worker(me, Worker())


def _take(world: World, me: Worker, message: Message, without: frozenset[str]) -> Step:
    """`take` and `take_over`: nobody's, or lost by whoever had it, or sent again on purpose."""
    if "the guard" in without:
        return "a worker takes nothing", world.worker(me, me._replace(at="took"))
    run = world.run_of(message)
    if run is None:
        attempt = message.attempt
    elif run.status == "running" and run.expired:
        attempt = max(run.attempt + 1, message.attempt)
    else:
        return f"a worker leaves {message.fire} alone", world.worker(me, me._replace(at="done"))
    took = Run(message.fire, message.salt, "running", attempt)
    after = world.run(took).worker(me, me._replace(at="took", attempt=attempt))
    return f"a worker takes {message.fire} as attempt {attempt}", after


def _effect(world: World, me: Worker, message: Message, without: frozenset[str]) -> Step:
    """`mark_effect`: what is written and `done` are one commit, if the run still has the tick."""
    run = world.run_of(message)
    if "the guard" not in without and "the fence" not in without:
        has_it = run is not None and run.status == "running" and run.attempt == me.attempt
        if not has_it:
            return "a worker is stale: it rolls back", world.worker(me, me._replace(at="done"))
    after = world._replace(effects=tuple(sorted([*world.effects, message.fire])))
    if run is not None:
        after = after.run(run._replace(status="done", expired=False, seen=False))
    after = after.worker(me, me._replace(at="done"))
    return f"a worker commits the effect of {message.fire}", after


def _message(me: Worker) -> Message:
    assert me.message is not None
    return me.message
