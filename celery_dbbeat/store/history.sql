-- What became of ticks, for people. Bounds on nominal_at are parameters, so that the planner never
-- opens the partitions of other days: on a new connection that would cost more than the reading.

-- name: find_schedule
SELECT id, clock_timestamp() AS now FROM dbbeat_schedule WHERE name = %(name)s;

-- name: history
SELECT nominal_at, last_at, count, state, kind, attempt, due_at, recorded_at, sent_at, outcome, reason,
       replica, epoch, task_id
FROM dbbeat_tick
WHERE schedule_id = %(schedule_id)s AND nominal_at >= %(since)s AND nominal_at < %(before)s
ORDER BY nominal_at DESC, task_id DESC
LIMIT %(limit)s;

-- name: decided_at
-- The ticks of one fire time, and the range of fire times not sent that reaches over it.
SELECT nominal_at, last_at, count, state, kind, attempt, due_at, recorded_at, sent_at, outcome, reason,
       replica, epoch, task_id
FROM dbbeat_tick WHERE schedule_id = %(schedule_id)s AND nominal_at = %(instant)s
UNION ALL
SELECT * FROM (
    SELECT nominal_at, last_at, count, state, kind, attempt, due_at, recorded_at, sent_at, outcome, reason,
           replica, epoch, task_id
    FROM dbbeat_tick WHERE schedule_id = %(schedule_id)s AND last_at >= %(instant)s
    ORDER BY last_at LIMIT 1
) AS over
WHERE nominal_at < %(instant)s;

-- name: runs_of
SELECT d.task_id, d.schedule, d.status, d.retries, d.worker, d.started_at, d.ended_at, d.result, d.error,
       d.traceback, d.earlier
FROM unnest(%(task_ids)b::uuid[], %(nominals)b::timestamptz[]) AS t (task_id, nominal_at)
JOIN dbbeat_dedup d ON d.task_id = t.task_id AND d.nominal_at = t.nominal_at
WHERE d.nominal_at BETWEEN %(first)s AND %(last)s;

-- name: dead_ticks
-- The newest first. No limit: all of them.
SELECT t.task_id, t.nominal_at, t.attempt, t.reason, s.name AS schedule
FROM dbbeat_tick t LEFT JOIN dbbeat_schedule s ON s.id = t.schedule_id
WHERE t.state = 'dead' AND (%(schedule_id)s::uuid IS NULL OR t.schedule_id = %(schedule_id)s)
ORDER BY t.nominal_at DESC, t.task_id DESC
LIMIT %(limit)s;

-- name: replay
SELECT dbbeat_replay(%(task_ids)s::uuid[]) AS task_id;

-- name: why_no_replay
SELECT EXISTS (SELECT FROM dbbeat_tick WHERE state = 'dead' AND task_id = %(task_id)s) AS dead,
       (SELECT status FROM dbbeat_dedup WHERE task_id = %(task_id)s LIMIT 1) AS status;
