-- What people order of one schedule besides changing it; and what beat orders when it fails too often.

-- name: pause_schedule
-- Returns after any claim under way: the database's trigger waits for the cursor. Paused again without
-- a note, it keeps the one it has.
UPDATE dbbeat_schedule
SET state = 'paused', note = COALESCE(%(note)s::text, CASE WHEN state = 'paused' THEN note END)
WHERE name = %(name)s AND state IN ('active', 'paused')
RETURNING id;

-- name: resume_schedule
UPDATE dbbeat_schedule SET state = 'active', note = NULL
WHERE name = %(name)s AND state = 'paused'
RETURNING id;

-- name: state_of
SELECT state, reason FROM dbbeat_schedule WHERE name = %(name)s;

-- name: trigger
SELECT dbbeat_trigger(%(name)s::text, %(args)s::jsonb, %(kwargs)s::jsonb) AS task_id;

-- name: newest_endings
-- How the newest fire times ended of schedules that are to be paused when too many fail: those decided
-- since the schedule last changed, and not what people triggered, replayed or backfilled.
SELECT s.id AS schedule_id, s.name, s.version, s.pause_after, t.state = 'dead' OR t.outcome = 'failed' AS failed, t.reason
FROM dbbeat_schedule s
CROSS JOIN LATERAL (
    SELECT near.* FROM (
        SELECT * FROM dbbeat_tick
        WHERE schedule_id = s.id AND nominal_at >= s.updated_at - interval '1 day'
        ORDER BY nominal_at DESC LIMIT s.pause_after + 1000
    ) AS near
    WHERE near.recorded_at >= s.updated_at AND near.kind NOT IN ('manual', 'backfill')
      AND (near.state = 'dead' OR near.outcome IS NOT NULL)
    ORDER BY near.nominal_at DESC LIMIT s.pause_after
) AS t
WHERE s.id = ANY(%(schedule_ids)s) AND s.pause_after IS NOT NULL AND s.state = 'active'
ORDER BY s.id, t.nominal_at DESC;

-- name: pause_failing
-- Never waits: whoever holds the row is changing it, and that begins the count anew.
WITH free AS (
    SELECT id FROM dbbeat_schedule
    WHERE id = %(schedule_id)s AND version = %(version)s AND state = 'active'
    FOR UPDATE SKIP LOCKED
)
UPDATE dbbeat_schedule s SET state = 'paused', note = %(note)s
FROM free WHERE s.id = free.id
RETURNING s.id;
