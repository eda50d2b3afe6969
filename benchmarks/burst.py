"""All schedules due at one instant: how fast they reach the broker, and how late the last is.

Two ratios are shown, as neither alone is fair. From the first arrival to the last leaves out what
this project does before its first batch, but not RedBeat's loading of what is due, because one
entry it had already looked at goes out before that. From the due instant to the last leaves out
nothing.
"""

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass

from benchmarks.beats import Setting, beats, celery, cpu_seconds, wait_until_idle
from benchmarks.inbox import Inbox, inbox
from benchmarks.report import Report
from benchmarks.schedules import register
from benchmarks.servers import Servers, connect, value
from tests.support.processes import Process
from tests.support.waiting import wait_until

#: Stock beat would take minutes; its rate is that of what arrived until then.
LIMIT = 60.0


@dataclass(frozen=True)
class Line:
    """One contender on one broker."""

    label: str
    broker: str
    contender: str = "celery-dbbeat"
    replicas: int = 1
    confirmed: bool = False


OURS = Line("celery-dbbeat", "Redis")
REDBEAT = Line("RedBeat", "Redis", "RedBeat")
STOCK = Line("stock beat", "Redis", "stock beat")
OURS_CONFIRMED = Line("celery-dbbeat, confirmed", "RabbitMQ")
STOCK_CONFIRMED = Line("stock beat, confirmed", "RabbitMQ", "stock beat", confirmed=True)
STOCK_BLIND = Line("stock beat, not confirmed", "RabbitMQ", "stock beat")
LINES = (
    OURS,
    Line("celery-dbbeat, 2 replicas", "Redis", replicas=2),
    REDBEAT,
    STOCK,
    OURS_CONFIRMED,
    Line("celery-dbbeat, confirmed, 2 replicas", "RabbitMQ", replicas=2),
    STOCK_CONFIRMED,
    STOCK_BLIND,
)


@dataclass(frozen=True)
class Burst:
    """What arrived, in seconds after the due instant."""

    arrived: int
    first: float
    last: float
    rate: float
    cpu_a_tick: float
    wrong: tuple[str, ...]


def run(servers: Servers, size: int) -> Report:
    """Each contender by itself, one after the other."""
    report = Report(
        "burst",
        f"{size:,} schedules due at one instant",
        ("", "broker", "rate", "last one late", "arrived", "CPU a tick"),
    )
    found: dict[Line, Burst] = {}
    for line in LINES:
        burst = found[line] = _measure(servers, line, size)
        report.wrong += [f"{line.label} on {line.broker}: {what}" for what in burst.wrong]
        report.rows.append(_row(line, burst))
        report.figures[f"{line.broker}: {line.label}"] = asdict(burst)
    report.headlines += [
        _ratio(found, OURS, REDBEAT),
        _ratio(found, OURS, STOCK),
        _ratio(found, OURS_CONFIRMED, STOCK_CONFIRMED),
        _ratio(found, OURS_CONFIRMED, STOCK_BLIND),
    ]
    return report


def _ratio(found: dict[Line, Burst], ours: Line, theirs: Line) -> str:
    mine, other = found[ours], found[theirs]
    whole = (mine.arrived / mine.last) / max(other.arrived / max(other.last, 1e-9), 1e-9)
    sending = mine.rate / max(other.rate, 1e-9)
    return (
        f"{ours.broker}: {whole:6.1f} × {theirs.label} from the due instant to the last arrival,"
        f" {sending:.1f} × from the first arrival"
    )


def _row(line: Line, burst: Burst) -> tuple[str, ...]:
    return (
        line.label,
        line.broker,
        f"{burst.rate:,.0f}/s",
        f"{burst.last:.2f} s",
        f"{burst.arrived:,}",
        f"{burst.cpu_a_tick * 1e6:,.0f} µs",
    )


def _measure(servers: Servers, line: Line, size: int) -> Burst:
    ours = line.contender == "celery-dbbeat"
    setting = Setting(
        line.contender,
        servers.fresh_redis() if line.broker == "Redis" else servers.fresh_rabbitmq(),
        servers.fresh_database() if ours else "",
        {"BENCHMARK_CONFIRM": "1"} if line.confirmed else {},
    )
    due = time.time() + 12 + size / 2000
    setting = register(setting, size, due)
    with (
        closing(inbox(setting.broker_url)) as arrivals,
        beats(setting, line.replicas) as running,
    ):
        _settle(setting, running)
        if time.time() > due - 0.5:
            raise RuntimeError(f"{line.label} was not idle before the schedules were due")
        burst = _watch(arrivals, running, size, due)
        return _checked(burst, arrivals, setting, size)


def _settle(setting: Setting, running: Sequence[Process]) -> None:
    wait_until_idle(running)
    if len(running) > 1:
        assert celery(setting, "dbbeat", "shards", str(len(running))).wait() == 0
        query = "SELECT count(DISTINCT holder) FROM dbbeat_lease"
        with connect(setting.database_url) as connection:
            wait_until(lambda: value(connection, query) == len(running), 10, "leases shared out")


def _watch(arrivals: Inbox, running: Sequence[Process], size: int, due: float) -> Burst:
    time.sleep(max(0.0, due - time.time() - 0.2))
    cpu = cpu_seconds(running)
    samples = [(due, 0)]
    while samples[-1][1] < size and samples[-1][0] < due + LIMIT:
        count = arrivals.count()
        if count != samples[-1][1]:
            samples.append((time.time(), count))
        elif time.time() > due + LIMIT:
            break
        time.sleep(0.002)
    cpu = cpu_seconds(running) - cpu
    arrived = samples[-1][1]
    (first, at_first), (last, _) = samples[min(1, len(samples) - 1)], samples[-1]
    rate = (arrived - at_first) / (last - first) if last > first else 0.0
    return Burst(arrived, first - due, last - due, rate, cpu / max(arrived, 1), ())


def _checked(burst: Burst, arrivals: Inbox, setting: Setting, size: int) -> Burst:
    """The same, with what is wrong about the counts; waits for what may still come too much."""
    time.sleep(1.0)
    messages = arrivals.drain()
    different = len({message.number for message in messages})
    wrong = []
    if different != len(messages):
        wrong.append(f"{len(messages) - different} messages doubled")
    # Stock beat may run into the limit; that is slow, not wrong.
    if different != size and setting.contender != "stock beat":
        wrong.append(f"{size - different} messages missing")
    if setting.database_url:
        wrong += _ledger(setting.database_url, size)
    return Burst(**{**asdict(burst), "wrong": tuple(wrong)})


def _ledger(url: str, size: int) -> list[str]:
    with connect(url) as connection:
        sent = value(connection, "SELECT count(*) FROM dbbeat_tick WHERE state = 'sent'")
        rows = value(connection, "SELECT count(*) FROM dbbeat_tick")
    if sent == rows == size:
        return []
    return [f"the ledger has {rows:.0f} ticks, {sent:.0f} of them sent, instead of {size}"]
