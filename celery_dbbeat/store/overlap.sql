-- Ticks of schedules whose overlap is not allow, until it is known that they ended. Where keys are given,
-- the oldest fire time is, too: the planner need not look at the partitions of the days before.

-- name: open_ticks
-- From here on they count; one that was open before stays so.
INSERT INTO dbbeat_open (schedule_id, nominal_at, task_id)
SELECT schedule_id, nominal_at, task_id
FROM unnest(%(schedule_ids)b::uuid[], %(nominals)b::timestamptz[], %(task_ids)b::uuid[])
     AS m (schedule_id, nominal_at, task_id)
ON CONFLICT DO NOTHING;

-- name: open_of
SELECT schedule_id, nominal_at, task_id FROM dbbeat_open WHERE schedule_id = ANY(%(schedule_ids)s);

-- name: close_ended
-- How open ticks stand; those that have ended are open no more, and one that was ended for a newer tick
-- is told how it did. Ended is: done, given up, not awaited any more, or failed where that is the end.
-- What was cancelled has ended unless a worker has it just now: no other will take it. A lease that ran
-- out ends nothing by itself: recovery decides whether the tick is sent again.
WITH known AS MATERIALIZED (
    SELECT m.schedule_id, m.nominal_at, m.task_id, t.state, d.status,
           coalesce(d.status = 'running' AND d.lease_until >= now(), false) AS begun,
           CASE WHEN t.state = 'cancelled' THEN NOT coalesce(d.status = 'running' AND d.lease_until >= now(), false)
                WHEN t.state IS NULL OR t.state NOT IN ('recorded', 'sent') OR d.status = 'done' THEN true
                WHEN d.status = 'failed' AND d.attempt >= t.attempt
                    THEN coalesce(s.on_failure, 'dead') = 'dead'
                ELSE t.state = 'sent' AND NOT t.awaited END AS ended
    FROM unnest(%(schedule_ids)b::uuid[], %(nominals)b::timestamptz[], %(task_ids)b::uuid[])
         AS m (schedule_id, nominal_at, task_id)
    LEFT JOIN dbbeat_tick t ON t.schedule_id = m.schedule_id AND t.nominal_at = m.nominal_at
         AND t.task_id = m.task_id AND t.nominal_at >= %(first)s
    LEFT JOIN dbbeat_dedup d ON d.task_id = m.task_id AND d.nominal_at = m.nominal_at
         AND d.nominal_at >= %(first)s
    LEFT JOIN dbbeat_schedule s ON s.id = m.schedule_id
), closed AS (
    DELETE FROM dbbeat_open o USING known k
    WHERE k.ended AND o.schedule_id = k.schedule_id AND o.nominal_at = k.nominal_at AND o.task_id = k.task_id
), told AS (
    UPDATE dbbeat_tick t SET outcome = k.status FROM known k
    WHERE k.ended AND k.state = 'cancelled' AND k.status IN ('done', 'failed')
      AND t.schedule_id = k.schedule_id AND t.nominal_at = k.nominal_at AND t.task_id = k.task_id
      AND t.nominal_at >= %(first)s
)
SELECT schedule_id, nominal_at, task_id, begun, state = 'cancelled' AS asked FROM known WHERE NOT ended;

-- name: cancel_ticks
-- These end for newer ones: no worker takes them any more, and nothing more is awaited of them. One that
-- was given up meanwhile is left alone, so that it can be replayed.
WITH cancelled AS (
    UPDATE dbbeat_tick t SET state = 'cancelled', awaited = false, reason = m.reason
    FROM unnest(%(schedule_ids)b::uuid[], %(nominals)b::timestamptz[], %(task_ids)b::uuid[], %(reasons)b::text[])
         AS m (schedule_id, nominal_at, task_id, reason)
    WHERE t.schedule_id = m.schedule_id AND t.nominal_at = m.nominal_at AND t.task_id = m.task_id
      AND t.nominal_at >= %(first)s
      AND CASE WHEN t.state = 'recorded' THEN true ELSE t.state = 'sent' AND t.awaited END
    RETURNING t.task_id
)
INSERT INTO dbbeat_cancelled (task_id) SELECT task_id FROM cancelled ON CONFLICT DO NOTHING;

-- name: waiting_slice
-- The next schedules after a place that wait for a run to end.
SELECT c.schedule_id, c.waits_since, s.max_concurrent
FROM dbbeat_schedule s JOIN dbbeat_cursor c ON s.id = c.schedule_id
WHERE c.waits_for = 'run' AND c.due_at IS NULL
  AND (c.waits_since, c.schedule_id) > (%(waits_since)s, %(schedule_id)s)
ORDER BY c.waits_since, c.schedule_id
LIMIT %(limit)s;

-- name: let_go
-- What these waited for has ended: they are due. Never waits; whoever has one locked decides it anyway.
WITH free AS (
    SELECT schedule_id FROM dbbeat_cursor
    WHERE schedule_id = ANY(%(schedule_ids)s) AND waits_for = 'run' AND due_at IS NULL
    FOR UPDATE SKIP LOCKED
)
UPDATE dbbeat_cursor c SET due_at = now() FROM free WHERE c.schedule_id = free.schedule_id;

-- name: forget_cancelled
-- By then no message of theirs can be left.
DELETE FROM dbbeat_cancelled WHERE requested_at < now() - %(keep)s;

-- name: forget_open
-- Those of schedules that are gone, or allow overlaps now.
DELETE FROM dbbeat_open o WHERE NOT EXISTS (
    SELECT FROM dbbeat_schedule s WHERE s.id = o.schedule_id AND s.overlap <> 'allow');
