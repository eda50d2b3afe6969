"""A replica whose wall clock is an hour off decides as the others do: by Postgres' clock."""

import re
from datetime import datetime, timedelta, timezone
from importlib.util import find_spec
from pathlib import Path

from tests.faults.cluster import Cluster
from tests.support.processes import Process


def off_by(offset: str) -> dict[str, str]:
    """The environment of a process whose wall clock is off; its monotonic clock is right."""
    spec = find_spec("libfaketime")
    assert spec is not None
    assert spec.origin is not None
    library = Path(spec.origin).parent / "vendor/libfaketime/src/libfaketime.so.1"
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME": offset,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "TZ": "UTC",
    }


def clock_of(beat: Process) -> datetime:
    """The wall clock as beat sees it, from its banner."""
    shown = re.search(r"LocalTime -> (\S+ \S+)", beat.wait_for("beat: Starting..."))
    assert shown is not None
    return datetime.fromisoformat(shown[1]).replace(tzinfo=timezone.utc)


def test_wall_clocks_an_hour_off_change_nothing(cluster: Cluster) -> None:
    ahead, behind = (cluster.start(**off_by(offset)) for offset in ("+1h", "-1h"))
    now = datetime.now(timezone.utc)
    assert clock_of(ahead) - now > timedelta(minutes=55)
    assert now - clock_of(behind) > timedelta(minutes=55)
    cluster.wait_until_ready()
    cluster.tables.add("steady", every="0.5", count=20)
    cluster.tables.wait_until_sent(1)
    cluster.kill(cluster.leader())
    cluster.tables.wait_until_sent(1)
    report = cluster.finish()
    assert max(report.arrived_late) < 30
    assert min(report.arrived_late) > -0.5
