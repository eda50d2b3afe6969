"""Every metric there is: its name, what it counts, and all values that its label can have."""

from dataclasses import dataclass
from typing import Literal

OTHER = "other"

_SHORT = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_LATENESS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, 3600.0)
_RUNS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; the total of a counter and the unit of a time are part of its name."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    label: str | None = None
    values: tuple[str, ...] = ("",)
    buckets: tuple[float, ...] = ()


#: What a beat process counts of itself.
BEAT = (
    Metric(
        "dbbeat_ticks_total",
        "counter",
        "Fire times by what became of them in this replica.",
        "outcome",
        (
            *("sent", "refused", "impossible", "unsent"),
            *("missed", "coalesced", "overlapped", "paused", OTHER),
        ),
    ),
    Metric(
        "dbbeat_tick_lateness_seconds",
        "histogram",
        "From the due time of a tick to its first sending, by the database's clock.",
        buckets=_LATENESS,
    ),
    Metric(
        "dbbeat_batch_seconds",
        "histogram",
        "What the steps of a batch take.",
        "step",
        ("mark", "claim", "plan", "record", "commit", "publish"),
        _SHORT,
    ),
    Metric("dbbeat_leases_held", "gauge", "How many leases this replica holds."),
    Metric(
        "dbbeat_lease_changes_total",
        "counter",
        "Leases that came to this replica, and that it lost or gave back.",
        "change",
        ("gained", "lost"),
    ),
    Metric("dbbeat_hedged_ticks_total", "counter", "Ticks taken in another replica's stead."),
    Metric(
        "dbbeat_recovered_ticks_total",
        "counter",
        "Ticks sent again: their worker was lost, none took them, they failed, were given back, or "
        "were not known to be sent.",
        "why",
        ("lost", "untaken", "failed", "given_back", "unsent"),
    ),
    Metric("dbbeat_ticks_died_total", "counter", "Ticks that this replica gave up for dead."),
    Metric(
        "dbbeat_schedules_ended_total",
        "counter",
        "Schedules that this replica found to be over, or not to be usable.",
        "state",
        ("finished", "invalid", OTHER),
    ),
    Metric(
        "dbbeat_errors_total",
        "counter",
        "Passes that failed, by what failed.",
        "dependency",
        ("database", "broker", OTHER),
    ),
    Metric("dbbeat_ready", "gauge", "1 if the last pass reached the database and the broker."),
)

#: What the leader shows of all tables, when it is asked, at most every 15 s.
CLUSTER = (
    Metric(
        "dbbeat_replicas",
        "gauge",
        "Replicas that are alive, by whether they reach the broker.",
        "state",
        ("ready", "not_ready"),
    ),
    Metric("dbbeat_workers", "gauge", "Workers with the guard that are alive."),
    Metric(
        "dbbeat_schedules",
        "gauge",
        "Schedules by their state; estimated where more than 10,000 are in it.",
        "state",
        ("active", "paused", "finished", "invalid"),
    ),
    Metric("dbbeat_due_schedules", "gauge", "Schedules that are due now; counted up to 10,000."),
    Metric(
        "dbbeat_late_schedules",
        "gauge",
        "Schedules that are due for longer than five times the hedge; counted up to 10,000.",
    ),
    Metric("dbbeat_oldest_due_seconds", "gauge", "For how long the oldest due schedule is due."),
    Metric(
        "dbbeat_unsent_ticks",
        "gauge",
        "Ticks that are recorded and not known to be sent; counted up to 10,000.",
    ),
    Metric(
        "dbbeat_awaited_ticks",
        "gauge",
        "Ticks on their way or running, with the guard; counted up to 10,000.",
    ),
    Metric("dbbeat_dead_ticks", "gauge", "Dead letters; counted up to 10,000."),
)

#: What a worker counts, in all processes of its pool.
WORKER = (
    Metric(
        "dbbeat_runs_total",
        "counter",
        "Runs of ticks by how they ended.",
        "outcome",
        ("done", "failed", "retry", "released", "stale", OTHER),
    ),
    Metric("dbbeat_run_seconds", "histogram", "How long runs of ticks take.", buckets=_RUNS),
    Metric(
        "dbbeat_duplicates_skipped_total",
        "counter",
        "Messages of ticks that were somebody's or done, and not run.",
    ),
    Metric(
        "dbbeat_guard_seconds",
        "histogram",
        "What the guard adds to a run: to take its id, and to write down its end.",
        "step",
        ("take", "finish"),
        _SHORT,
    ),
    Metric(
        "dbbeat_guard_errors_total",
        "counter",
        "Ids that could not be taken, ends that are written down later: the database was away.",
        "step",
        ("take", "finish"),
    ),
)

ALL = (*BEAT, *CLUSTER, *WORKER)
