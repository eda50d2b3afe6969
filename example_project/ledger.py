"""What the tables say: who leads, what was sent, what came of it."""

from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Engine, text

LEADERS = text("""
    SELECT DISTINCT r.pid FROM dbbeat_lease l JOIN dbbeat_replica r ON r.id = l.holder
    WHERE l.expires_at > now()
""")
SENT = text("SELECT task_id FROM dbbeat_tick WHERE state = 'sent'")
EFFECTS = text("SELECT id, done_at - nominal_at AS late FROM example_effect ORDER BY id")
ADD = text("""
    INSERT INTO dbbeat_schedule (name, task, kind, expression, args)
    VALUES (:name, 'example_project.tasks.send_report', 'interval', '1', '["stock"]')
""")
PAUSE = text("UPDATE dbbeat_schedule SET state = 'paused' WHERE state = 'active'")
# What was decided and has not had its effect yet.
OPEN = text("""
    SELECT count(*) FROM dbbeat_tick t
    WHERE state = 'recorded' OR (state = 'sent'
        AND NOT EXISTS (SELECT FROM example_effect e WHERE e.task_id = t.task_id))
""")
# Each second from a schedule's first tick to its last must have a tick; a row may also stand for
# several fire times that were not sent, with the reason. An effect counts for the fire time that
# its message named.
FIRE_TIMES = text(r"""
    WITH bounds AS (
        SELECT s.id, s.name, min(t.nominal_at) AS first_at,
               max(coalesce(t.last_at, t.nominal_at)) AS last_at
        FROM dbbeat_schedule s JOIN dbbeat_tick t ON t.schedule_id = s.id
        WHERE s.kind = 'interval' AND s.expression ~ '^1(\.0+)?$' GROUP BY s.id, s.name
    ), expected AS (
        SELECT id, name, generate_series(first_at, last_at, interval '1 s') AS nominal_at
        FROM bounds
    )
    SELECT count(*) AS expected,
           count(*) FILTER (WHERE sent > 0) AS sent,
           count(*) FILTER (WHERE sent = 0 AND reasons > 0) AS not_sent,
           sum(effects) AS effects,
           count(*) FILTER (WHERE effects = 0 AND NOT (sent = 0 AND reasons > 0)) AS lost,
           sum(greatest(effects - 1, 0)) AS doubled
    FROM (
        SELECT (SELECT count(*) FROM dbbeat_tick t WHERE t.schedule_id = e.id
                AND t.nominal_at = e.nominal_at AND t.state = 'sent') AS sent,
               (SELECT count(*) FROM dbbeat_tick t WHERE t.schedule_id = e.id
                AND e.nominal_at BETWEEN t.nominal_at AND coalesce(t.last_at, t.nominal_at)
                AND t.reason IS NOT NULL) AS reasons,
               (SELECT count(*) FROM example_effect x
                WHERE x.schedule = e.name AND x.nominal_at = e.nominal_at) AS effects
        FROM expected e
    ) AS fire_time
""")
RUNNING = text("SELECT count(*) FROM dbbeat_dedup WHERE status = 'running'")
# Ticks that were sent again because they, or the worker that had them, were lost.
RECOVERED = text("SELECT count(*) FROM dbbeat_tick WHERE losses > 0")
STRAY = text("""
    SELECT count(*) FROM example_effect e
    WHERE NOT EXISTS (SELECT FROM dbbeat_tick t WHERE t.task_id = e.task_id)
""")

GAP = text("""
    SELECT max(gap) FROM (SELECT done_at - lag(done_at) OVER (ORDER BY done_at) AS gap
                          FROM example_effect) AS silence
""")


class Progress(NamedTuple):
    """What happened since the last look."""

    ticks: int
    effects: int
    worst: timedelta | None


class Count(NamedTuple):
    """How it ended. A fire time is lost without an effect and without a recorded reason."""

    expected: int
    sent: int
    not_sent: int
    effects: int
    lost: int
    doubled: int
    recovered: int
    stray: int
    gap: timedelta | None

    @property
    def good(self) -> bool:
        return self.expected > 0 and not (self.lost or self.doubled or self.stray)


class Ledger:
    """The tables of a running demo."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._ticks: set[UUID] = set()
        self._last_effect = 0
        self.late: list[timedelta] = []

    def leaders(self) -> list[int]:
        """The process ids of the replicas that hold a lease."""
        with self._engine.connect() as connection:
            return list(connection.scalars(LEADERS))

    def has_effects(self) -> bool:
        with self._engine.connect() as connection:
            exists = connection.scalar(text("SELECT to_regclass('example_effect') IS NOT NULL"))
            return bool(exists) and connection.execute(EFFECTS).first() is not None

    def add_by_sql(self, name: str) -> None:
        with self._engine.begin() as connection:
            connection.execute(ADD, {"name": name})

    def pause_all(self) -> None:
        """Returns after any claim under way: from then on nothing new is decided."""
        with self._engine.begin() as connection:
            connection.execute(PAUSE)

    def nothing_open(self) -> bool:
        with self._engine.connect() as connection:
            return not connection.scalar(OPEN)

    def something_runs(self) -> bool:
        with self._engine.connect() as connection:
            return bool(connection.scalar(RUNNING))

    def progress(self) -> Progress:
        with self._engine.connect() as connection:
            ticks = set(connection.scalars(SENT)) - self._ticks
            effects = [row for row in connection.execute(EFFECTS) if row.id > self._last_effect]
        self._ticks |= ticks
        self._last_effect = max((row.id for row in effects), default=self._last_effect)
        late = [row.late for row in effects if row.late is not None]
        self.late += late
        return Progress(len(ticks), len(effects), max(late, default=None))

    def count(self) -> Count:
        with self._engine.connect() as connection:
            times = connection.execute(FIRE_TIMES).one()
            recovered = connection.scalar(RECOVERED) or 0
            stray = connection.scalar(STRAY) or 0
            gap = connection.scalar(GAP)
        effects, doubled = int(times.effects or 0), int(times.doubled or 0)
        sums = (times.expected, times.sent, times.not_sent, effects, times.lost, doubled)
        return Count(*sums, int(recovered), stray, gap)
