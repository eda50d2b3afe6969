"""See it run: `python -m example_project.demo`, or `make demo`.

Two beats and a worker, with a Postgres and a broker of their own in a temporary folder. The beat
that leads is killed on the way, and so is the worker; at the end every fire time is counted.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Sequence

from sqlalchemy import create_engine

from celery_dbbeat.errors import DbbeatError
from example_project.ledger import Count, Ledger
from example_project.stage import Child, DemoError, Stage, stage, wait

START_TIMEOUT = 40
DRAIN_TIMEOUT = 15


class Demo:
    """One performance."""

    def __init__(self, scene: Stage) -> None:
        self.scene = scene
        self.beats: list[Child] = []
        self.worker: Child
        self.names: dict[int, str] = {}
        url = scene.start_database()
        self.ledger = Ledger(create_engine(url))

    def open(self) -> None:
        """Start everything and wait for the first effects."""
        self.scene.start_broker()
        self.scene.finish(self.scene.celery("migrate", "dbbeat", "migrate"), START_TIMEOUT)
        self.worker = self.add_worker("worker-1")
        self.add_beat()
        self.add_beat()
        beats = ", ".join(f"{beat.name} ({beat.pid})" for beat in self.beats)
        print(f"Running: {beats} and a worker ({self.worker.pid})")
        print(f"The logs are in {self.scene.folder}")

        def under_way() -> bool:
            self.scene.check()
            return self.ledger.has_effects() and bool(self.leader())

        if not wait(under_way, START_TIMEOUT):
            raise self.beats[0].error("no effect was seen")

    def add_beat(self) -> Child:
        beat = self.scene.celery(f"beat-{len(self.names) + 1}", "beat", "-l", "INFO")
        self.beats.append(beat)
        self.names[beat.pid] = beat.name
        return beat

    def add_worker(self, name: str) -> Child:
        return self.scene.celery(name, "worker", "-P", "solo", "-l", "INFO", "-n", f"{name}@demo")

    def leader(self) -> Child | None:
        """A beat that holds a lease."""
        leaders = self.ledger.leaders()
        return next((beat for beat in self.beats if beat.pid in leaders), None)

    def watch(self, seconds: int) -> None:
        """Print a line a second."""
        for _ in range(seconds):
            time.sleep(1)
            self.scene.check()
            self.show()

    def show(self) -> None:
        names = [self.names[pid] for pid in self.ledger.leaders()] or ["nobody"]
        seen = self.ledger.progress()
        late = f"{seen.worst.total_seconds() * 1000:6.0f} ms" if seen.worst is not None else ""
        print(
            f"{time.strftime('%H:%M:%S')}  {'+'.join(names):<14}"
            f"{seen.ticks:>6} {seen.effects:>8} {late:>12}",
            flush=True,
        )

    def kill_leader(self) -> None:
        leader = self.leader()
        if leader is None:
            raise DemoError("nobody leads, so that there is nobody to kill")
        self.scene.kill(leader)
        self.beats.remove(leader)
        self.names[leader.pid] += " (dead)"
        say(f"kill -9 {leader.pid}: {leader.name}, which led, is gone")

    def kill_worker(self) -> None:
        """In the middle of a task, which the next one runs."""
        wait(self.ledger.something_runs, START_TIMEOUT)
        self.scene.kill(self.worker)
        say(f"kill -9 {self.worker.pid}: the worker is gone, in the middle of a task")
        self.worker = self.add_worker("worker-2")

    def close(self) -> Count:
        """No new fire times; wait until those that were decided have had their effect."""
        self.ledger.pause_all()
        wait(self.ledger.nothing_open, DRAIN_TIMEOUT)
        self.show()
        return self.ledger.count()


def perform(demo: Demo, seconds: int) -> Count:
    """The story, in three parts of this length."""
    demo.open()
    print(f"\n{'time':<10}{'leader':<14}{'ticks':>6} {'effects':>8} {'worst late':>12}")
    demo.show()
    demo.ledger.add_by_sql("stock-report")
    say("INSERT INTO dbbeat_schedule …: a third schedule, by plain SQL")
    demo.watch(seconds)
    demo.kill_leader()
    demo.watch(seconds)
    say(f"a new replica: {demo.add_beat().name}")
    demo.kill_worker()
    demo.watch(seconds)
    say("all schedules paused; what is under way comes to its end")
    return demo.close()


def say(what: str) -> None:
    print(f"-- {what}", flush=True)


def summary(count: Count, demo: Demo) -> str:
    late = sorted(value.total_seconds() * 1000 for value in demo.ledger.late)
    lines = [
        ("fire times expected", f"{count.expected}", "every second from first to last"),
        ("sent", f"{count.sent}", ""),
        ("not sent, with reason", f"{count.not_sent}", "see dbbeat_tick.reason"),
        ("effects", f"{count.effects}", "rows that the tasks wrote"),
        ("lost", f"{count.lost}", "neither an effect nor a reason"),
        ("doubled", f"{count.doubled}", "effects of a fire time beyond the first"),
        ("recovered", f"{count.recovered}", "sent again because a worker died with them"),
    ]
    if count.stray:
        lines.append(("stray", f"{count.stray}", "effects of ids that are in no tick"))
    if late:
        lines.append(
            (
                "late, median",
                f"{statistics.median(late):.0f} ms",
                "until the effect; a task takes 100 ms",
            )
        )
        lines.append(("late, worst", f"{late[-1]:.0f} ms", "the kill included"))
    if count.gap is not None:
        gap = f"{count.gap.total_seconds() * 1000:.0f} ms"
        lines.append(("longest silence", gap, "between two effects; 1,000 ms is usual"))
    return "\n".join(f"  {name:<24}{value:>9}   {note}".rstrip() for name, value, note in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m example_project.demo", description=__doc__)
    parser.add_argument("--seconds", type=int, default=6, help="length of each of three parts")
    seconds = parser.parse_args(arguments).seconds
    try:
        with stage() as scene:
            print("Starting Postgres, a broker, two beats and a worker …", flush=True)
            demo = Demo(scene)
            count = perform(demo, seconds)
            print(f"\n{summary(count, demo)}\n")
    except (DemoError, DbbeatError) as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nStopped; everything was cleaned up.", file=sys.stderr)
        return 130
    print("Every fire time is accounted for." if count.good else "NOT every fire time came once!")
    return 0 if count.good else 1


if __name__ == "__main__":
    sys.exit(main())
