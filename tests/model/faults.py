"""What can go wrong at any time, so often as there are such faults left."""

from collections.abc import Iterator

from tests.model.beat import Step
from tests.model.world import Replica, Worker, World


def steps(world: World) -> Iterator[Step]:
    """One fault, wherever it can strike."""
    for replica in world.replicas:
        yield from _beat_dies(world, replica)
    for worker in dict.fromkeys(world.workers):
        yield from _worker_dies(world, worker)
    if (doubled := world.spend("message_doubled")) is not None:
        for message in dict.fromkeys(world.messages):
            yield f"the broker doubles {message.fire}", doubled.send(message)
    if world.messages and (emptied := world.spend("broker_emptied")) is not None:
        yield "the broker loses everything", emptied._replace(messages=())
    if world.lock and (ended := world.spend("transaction_ended")) is not None:
        yield "the server ends the transaction", ended._replace(lock=None)
    yield from _leases_run_out(world)


def _beat_dies(world: World, me: Replica) -> Iterator[Step]:
    """Another starts at once in its place; what it had locked is free."""
    if me.at != "idle" and (after := world.spend("beat_dies")) is not None:
        free = after._replace(lock=None) if world.lock == me.name else after
        yield f"{me.name} dies", free.replica(Replica(me.name))


def _worker_dies(world: World, me: Worker) -> Iterator[Step]:
    """Acknowledged late, its message comes again; acknowledged early, it is gone."""
    if me.message is None or (after := world.spend("worker_dies")) is None:
        return
    gone = after.worker(me, Worker())
    yield "a worker dies, its message with it", gone
    yield "a worker dies, its message comes again", gone.send(me.message)


def _leases_run_out(world: World) -> Iterator[Step]:
    """Of a run whose process died; and of one that is only frozen, which costs a fault."""
    for run in world.runs:
        if run.status != "running" or run.expired:
            continue
        alive = any(
            worker.at == "took"
            and worker.message is not None
            and worker.message[:2] == run[:2]
            and worker.attempt == run.attempt
            for worker in world.workers
        )
        after = world.spend("worker_freezes") if alive else world
        if after is not None:
            yield f"the lease on {run.fire} runs out", after.run(run._replace(expired=True))
