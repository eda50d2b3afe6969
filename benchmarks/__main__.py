"""Run the cases asked for, print what they found, and say whether any count was wrong."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import (
    burst,
    catch_up,
    failover,
    guard,
    idle,
    manage,
    seen,
    steady,
    triggers,
)
from benchmarks.report import Report, machine
from benchmarks.servers import Servers

CASES: dict[str, tuple[Callable[[Servers, int], Report], int]] = {
    "burst": (burst.run, 10_000),
    "idle": (idle.run, 100_000),
    "seen": (seen.run, 20),
    "failover": (failover.run, 5),
    "steady": (steady.run, 10_000),
    "guard": (guard.run, 10_000),
    "triggers": (triggers.run, 10_000),
    "manage": (manage.run, 1_000_000),
    "catch_up": (catch_up.run, 10_000),
}


def main() -> int:
    """Return 1 when a count was wrong; nothing is said about time."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "case", nargs="*", choices=[*CASES, []], help=f"of {', '.join(CASES)}; all if none is named"
    )
    parser.add_argument(
        "--size",
        type=int,
        help="schedules (burst, catch_up, idle, manage, steady), ticks (guard), steps (triggers), "
        "or repeats",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there, too")
    given = parser.parse_args()
    about = machine()
    print("  ".join(f"{name} {shown}" for name, shown in about.items()))
    reports = []
    with Servers() as servers:
        for name in given.case or CASES:
            run, size = CASES[name]
            reports.append(run(servers, given.size or size))
            reports[-1].show()
    if given.json:
        found = {"machine": about, "cases": [report.data() for report in reports]}
        given.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 1 if any(report.wrong for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
