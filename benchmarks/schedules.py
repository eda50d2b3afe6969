"""The same schedules for each contender: daily, and due for the first time at one instant."""

import json
from datetime import datetime, timezone

import redis
from redbeat.decoder import RedBeatJSONEncoder
from redbeat.schedulers import RedBeatConfig

from benchmarks.app import DAY, TASK, app, daily_entries
from benchmarks.beats import Setting
from benchmarks.servers import connect

_INSERT = """
INSERT INTO dbbeat_schedule (name, task, kind, expression, start_at, args)
SELECT %(name)s || i, %(task)s, 'interval', %(every)s,
       to_timestamp(%(due)s + i * %(apart)s::float8), jsonb_build_array(i)
FROM generate_series(0, %(size)s - 1) AS i
"""


def insert(
    url: str, size: int, due: float, every: float = DAY.total_seconds(), apart: float = 0
) -> None:
    """Plain SQL; `apart` is the time from the first fire time of one to that of the next."""
    given = {"name": "bench-", "task": TASK, "every": f"{every:g}", "due": due}
    with connect(url) as connection:
        connection.execute(_INSERT, {**given, "apart": apart, "size": size})
        connection.execute("ANALYZE dbbeat_schedule, dbbeat_cursor")


def register(setting: Setting, size: int, due: float) -> Setting:
    """Register with the contender of a setting; returns the setting to run it with."""
    if setting.contender == "celery-dbbeat":
        insert(setting.database_url, size, due)
    elif setting.contender == "RedBeat":
        _write_redbeat(setting.broker_url, size, due)
    else:
        extra = {**setting.extra, "BENCHMARK_STATIC": f"{size}@{due}"}
        return Setting(setting.contender, setting.broker_url, extra=extra)
    return setting


def _write_redbeat(url: str, size: int, due: float) -> None:
    """What `RedBeatSchedulerEntry.save` writes, without its round trip an entry."""
    app.conf.redbeat_redis_url = url
    names = RedBeatConfig(app)
    instant = datetime.fromtimestamp(due, timezone.utc)
    with redis.Redis.from_url(url) as client, client.pipeline(transaction=False) as pipe:
        for name, entry in daily_entries(size, instant).items():
            meta = {"last_run_at": entry.pop("last_run_at")}
            definition = {"name": name, "kwargs": {}, "options": {}, "enabled": True, **entry}
            key = names.key_prefix + name
            pipe.hset(key, "definition", json.dumps(definition, cls=RedBeatJSONEncoder))
            pipe.hset(key, "meta", json.dumps(meta, cls=RedBeatJSONEncoder))
            pipe.zadd(names.schedule_key, {key: due})
        pipe.execute()
