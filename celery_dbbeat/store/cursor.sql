-- name: claim_due
-- Takes due cursors for this transaction; others skip them until it ends. Without the lease on its
-- shard a cursor is taken only when overdue by the hedge. A schedule that changed between the
-- snapshot and the lock comes back with `stale`: its cursor is newer than what was read of it.
-- The table of schedules is named first and so locked first, as by TRUNCATE and migrations: in the
-- other order, one that comes in between and this would wait for each other.
WITH schedules_first AS (
    SELECT FROM dbbeat_schedule
), due AS MATERIALIZED (
    SELECT * FROM dbbeat_cursor
    WHERE due_at <= now() - %(at_least)s
      AND (%(all_shards)s OR shard = ANY(%(shards)s) OR due_at <= now() - %(hedge)s)
    ORDER BY due_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
SELECT now() AS now, due.schedule_id, due.shard, due.nominal_at, due.due_at, due.replan_from,
       due.held_at, due.runs, due.waits_for, due.waits_since, due.range_at, due.range_until,
       due.range_state, due.before::text AS before, s.id IS NULL AS stale, s.version, s.name, s.task, s.kind, s.expression,
       s.timezone, s.args::text AS args, s.kwargs::text AS kwargs, s.options::text AS options,
       s.misfire_grace, s.overlap, s.jitter, s.start_at, s.end_at, s.max_runs,
       s.exclude::text AS exclude, s.catch_up, s.catch_up_limit, s.max_concurrent
FROM due LEFT JOIN dbbeat_schedule s ON s.id = due.schedule_id AND s.version = due.version
ORDER BY due.due_at;

-- name: claim_late
-- Takes so many late ones whose turn has come, those first that have waited longest. Only whoever has
-- the row of dbbeat_pace asks. The schedules' table is locked first, as above.
WITH schedules_first AS (
    SELECT FROM dbbeat_schedule
), due AS MATERIALIZED (
    SELECT * FROM dbbeat_cursor
    WHERE waits_for = 'turn' AND waits_since <= now()
    ORDER BY waits_since
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
SELECT now() AS now, due.schedule_id, due.shard, due.nominal_at, due.due_at, due.replan_from,
       due.held_at, due.runs, due.waits_for, due.waits_since, due.range_at, due.range_until,
       due.range_state, due.before::text AS before, s.id IS NULL AS stale, s.version, s.name, s.task, s.kind, s.expression,
       s.timezone, s.args::text AS args, s.kwargs::text AS kwargs, s.options::text AS options,
       s.misfire_grace, s.overlap, s.jitter, s.start_at, s.end_at, s.max_runs,
       s.exclude::text AS exclude, s.catch_up, s.catch_up_limit, s.max_concurrent
FROM due LEFT JOIN dbbeat_schedule s ON s.id = due.schedule_id AND s.version = due.version
ORDER BY due.waits_since;

-- name: unsent_of
-- Of these schedules, those that have ticks which are recorded and not known to be sent. In the order of
-- the index, so that its dead entries are cleared away by reading it; hardly ever is there anything.
SELECT DISTINCT schedule_id FROM (
    SELECT schedule_id FROM dbbeat_tick WHERE state = 'recorded' ORDER BY claimed_at LIMIT 1000000
) AS unsent
WHERE schedule_id = ANY(%(schedule_ids)s);

-- name: postpone
-- Looks at these again a little later: a late tick must not overtake the one before it.
UPDATE dbbeat_cursor
SET due_at = CASE WHEN due_at IS NOT NULL THEN now() + interval '0.25 s' END,
    waits_since = CASE WHEN waits_since IS NOT NULL THEN now() + interval '0.25 s' END
WHERE schedule_id = ANY(%(schedule_ids)s);

-- name: mend_cursors
-- For stale ones: nothing to do if the schedule just changed, its trigger has set the cursor right.
-- Where triggers were bypassed, this does their work.
WITH orphans AS (
    DELETE FROM dbbeat_cursor c WHERE c.schedule_id = ANY(%(schedule_ids)s)
       AND NOT EXISTS (SELECT FROM dbbeat_schedule s WHERE s.id = c.schedule_id)
)
UPDATE dbbeat_cursor c
SET version = s.version, replan_from = now(), due_at = CASE WHEN s.state = 'active' THEN now() END,
    waits_for = NULL, waits_since = NULL
FROM dbbeat_schedule s
WHERE c.schedule_id = ANY(%(schedule_ids)s) AND s.id = c.schedule_id AND s.version <> c.version;

-- name: record
-- Ticks and cursors in one statement: from its commit the ticks will be sent, whoever dies.
-- Returns the ticks that are new; one that was there before is somebody's already.
WITH moved AS (
    UPDATE dbbeat_cursor c
    SET nominal_at = p.nominal_at, due_at = p.due_at, replan_from = p.replan_from,
        held_at = p.held_at, runs = p.runs
    FROM unnest(%(schedule_ids)b::uuid[], %(next_nominals)b::timestamptz[], %(next_dues)b::timestamptz[],
                %(replans)b::timestamptz[], %(helds)b::timestamptz[], %(runs)b::bigint[])
         AS p (schedule_id, nominal_at, due_at, replan_from, held_at, runs)
    WHERE c.schedule_id = p.schedule_id
)
INSERT INTO dbbeat_tick (schedule_id, nominal_at, task_id, state, kind, due_at, replica, epoch)
SELECT schedule_id, nominal_at, task_id, 'recorded', kind, due_at, %(replica)s, epoch
FROM unnest(%(tick_schedules)b::uuid[], %(tick_nominals)b::timestamptz[], %(task_ids)b::uuid[],
            %(tick_kinds)b::text[], %(tick_dues)b::timestamptz[], %(tick_epochs)b::bigint[])
     AS t (schedule_id, nominal_at, task_id, kind, due_at, epoch)
ON CONFLICT DO NOTHING
RETURNING task_id;

-- name: remember
-- Moves the few cursors that remember more than where they stand; in the same transaction as `record`.
UPDATE dbbeat_cursor c
SET nominal_at = p.nominal_at, due_at = p.due_at, replan_from = p.replan_from, held_at = p.held_at,
    runs = p.runs, waits_for = p.waits_for, waits_since = p.waits_since, range_at = p.range_at,
    range_until = p.range_until, range_state = p.range_state, before = p.before::jsonb
FROM unnest(%(schedule_ids)b::uuid[], %(next_nominals)b::timestamptz[], %(next_dues)b::timestamptz[],
            %(replans)b::timestamptz[], %(helds)b::timestamptz[], %(runs)b::bigint[], %(waits)b::text[],
            %(waits_since)b::timestamptz[], %(range_ats)b::timestamptz[], %(range_untils)b::timestamptz[],
            %(range_states)b::text[], %(befores)b::text[])
     AS p (schedule_id, nominal_at, due_at, replan_from, held_at, runs, waits_for, waits_since, range_at,
           range_until, range_state, before)
WHERE c.schedule_id = p.schedule_id;

-- name: revisit
-- A schedule that was to end while somebody held its row: look again in a second.
UPDATE dbbeat_cursor
SET due_at = now() + interval '1 second', replan_from = coalesce(replan_from, now()), waits_for = NULL,
    waits_since = NULL
WHERE schedule_id = ANY(%(schedule_ids)s);

-- name: next_due
-- When there is something to do next: for the shards held, for any shard, the oldest tick that another
-- replica recorded and has not sent, or this one for a lease's time; when the next late one may go, and
-- whether any waits for a run to end.
SELECT clock_timestamp() AS now,
       (SELECT due_at FROM dbbeat_cursor
        WHERE %(any_shards)s AND due_at IS NOT NULL AND (%(all_shards)s OR shard = ANY(%(shards)s))
        ORDER BY due_at LIMIT 1) AS held_due,
       (SELECT due_at FROM dbbeat_cursor WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1) AS any_due,
       (SELECT claimed_at FROM dbbeat_tick WHERE state = 'recorded'
           AND (replica <> %(replica)s OR claimed_at < now() - %(lease_ttl)s)
        ORDER BY claimed_at LIMIT 1) AS unsent_since,
       (SELECT greatest(waits_since, (SELECT free_at FROM dbbeat_pace)) FROM dbbeat_cursor
        WHERE waits_for = 'turn' AND waits_since IS NOT NULL ORDER BY waits_since LIMIT 1) AS late_at,
       EXISTS (SELECT FROM dbbeat_cursor WHERE waits_for = 'run' AND due_at IS NULL) AS waiting;
