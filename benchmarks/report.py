"""What a case found, for people and for programs."""

import math
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("celery-dbbeat", "celery", "kombu", "celery-redbeat", "psycopg", "redis", "amqp")


@dataclass
class Report:
    """One case: what to know first, the figures, and the counts that were wrong."""

    case: str
    about: str
    columns: tuple[str, ...]
    headlines: list[str] = field(default_factory=list)
    rows: list[tuple[str, ...]] = field(default_factory=list)
    figures: dict[str, object] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def show(self) -> None:
        """Print it."""
        print(f"\n{self.case}: {self.about}\n")
        for line in self.headlines:
            print(f"  {line}")
        if self.headlines:
            print()
        table = [self.columns, *self.rows]
        widths = [max(len(row[place]) for row in table) for place in range(len(self.columns))]
        for number, row in enumerate(table):
            first, *others = zip(row, widths, strict=True)
            cells = [first[0].ljust(first[1]), *(text.rjust(width) for text, width in others)]
            print("  " + "  ".join(cells))
            if number == 0:
                print("  " + "  ".join("─" * width for width in widths))
        for line in self.wrong:
            print(f"  WRONG: {line}")

    def data(self) -> dict[str, object]:
        """As JSON holds it."""
        return asdict(self)


def machine() -> dict[str, object]:
    """Where and on what these figures were taken."""
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "cores": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share of the values does not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def milliseconds(seconds: float) -> str:
    """For people."""
    return f"{seconds * 1000:,.1f} ms" if abs(seconds) < 0.1 else f"{seconds * 1000:,.0f} ms"
