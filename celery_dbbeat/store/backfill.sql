-- Orders to send the fire times of a stretch of time past, in slices: each slice is one transaction under
-- the lock of its backfill and of the schedule's cursor. Two leaders never work on one at once, and
-- pausing a schedule waits for its slice as it waits for a claim.

-- name: order_backfill
-- Not of a schedule that is just being deleted. No row comes back: nothing lies in that stretch, or
-- the schedule is gone. Without a start it is the time for which the schedule is held.
INSERT INTO dbbeat_backfill (schedule_id, schedule, start_at, end_at, reprocess, max_concurrent, rate,
                             overlap, note, total)
SELECT s.id, s.name, given.start_at, least(given.end_at, clock_timestamp()), %(reprocess)s::text,
       %(max_concurrent)s::int, %(rate)s::double precision, %(overlap)s::text, %(note)s::text, %(total)s::bigint
FROM dbbeat_schedule s
LEFT JOIN dbbeat_cursor c ON c.schedule_id = s.id
CROSS JOIN LATERAL (SELECT coalesce(%(start_at)s::timestamptz, least(c.nominal_at, c.held_at)) AS start_at,
                           coalesce(%(end_at)s::timestamptz, clock_timestamp()) AS end_at) AS given
WHERE s.id = %(schedule_id)s AND given.start_at <= least(given.end_at, clock_timestamp())
RETURNING id;

-- name: list_backfills
-- The newest first; by id, of one schedule, or all.
SELECT b.id, b.schedule, b.start_at, b.end_at, b.reprocess, b.max_concurrent, b.rate, b.overlap, b.note,
       b.ordered_by, b.ordered_at, b.state, b.reason, b.total, b.next_at, b.passed, b.sent, b.done,
       b.failed, cardinality(b.open_ids) AS open, b.ended_at, coalesce(s.state, 'deleted') AS schedule_state
FROM dbbeat_backfill b LEFT JOIN dbbeat_schedule s ON s.id = b.schedule_id
WHERE (%(id)s::bigint IS NULL OR b.id = %(id)s)
  AND (%(schedule_id)s::uuid IS NULL OR b.schedule_id = %(schedule_id)s)
ORDER BY b.id DESC
LIMIT %(limit)s;

-- name: turn_backfill
-- People stop what is running, and let go on what was stopped.
UPDATE dbbeat_backfill SET state = %(state)s, reason = %(reason)s,
       ended_at = CASE WHEN %(state)s::text = 'running' THEN NULL ELSE now() END
WHERE id = %(id)s AND state = %(from_state)s
RETURNING id;

-- name: backfills_under_way
-- Those with something left to send, or of which ticks are not known to have ended.
SELECT id FROM dbbeat_backfill WHERE state = 'running' OR cardinality(open_ids) > 0 ORDER BY id;

-- name: lock_backfill
-- For one slice. No row comes back: another leader has it, or there is nothing left to do.
SELECT now() AS now, id, schedule_id, start_at, end_at, reprocess, max_concurrent, rate, overlap, state,
       coalesce(next_at, start_at) AS next_at, next_at IS NULL AS fresh, paced_at, open_nominals, open_ids
FROM dbbeat_backfill
WHERE id = %(id)s AND (state = 'running' OR cardinality(open_ids) > 0)
FOR UPDATE SKIP LOCKED;

-- name: lock_cursor
-- From here on nothing else is recorded for this schedule, and who pauses it waits.
SELECT nominal_at, due_at, replan_from FROM dbbeat_cursor WHERE schedule_id = %(schedule_id)s
FOR UPDATE SKIP LOCKED;

-- name: backfilled_schedule
-- Read after its cursor is locked: a pause that was committed before is seen.
SELECT s.id AS schedule_id, s.state, s.reason, s.version, s.name, s.task, s.kind, s.expression, s.timezone,
       s.args::text AS args, s.kwargs::text AS kwargs, s.options::text AS options, s.misfire_grace,
       s.overlap, s.jitter, s.start_at, s.end_at, s.max_runs,
       s.exclude::text AS exclude, s.catch_up, s.catch_up_limit, s.max_concurrent
FROM dbbeat_schedule s WHERE s.id = %(schedule_id)s;

-- name: schedule_by_name
SELECT s.id AS schedule_id, clock_timestamp() AS now, s.state, s.reason, s.version, s.name, s.task, s.kind,
       s.expression, s.timezone, s.args::text AS args, s.kwargs::text AS kwargs,
       s.options::text AS options, s.misfire_grace, s.overlap, s.jitter, s.start_at, s.end_at, s.max_runs,
       s.exclude::text AS exclude, s.catch_up, s.catch_up_limit, s.max_concurrent
FROM dbbeat_schedule s WHERE s.name = %(name)s;

-- name: known_ticks
-- What is known of fire times by the ids that they are sent under. Key by key, as LIMIT says: a planner
-- without statistics would rather compare all that the schedule ever sent with each key.
SELECT t.nominal_at, t.task_id, t.state, t.claimed_at, t.last_at, t.count, t.reason, t.awaited, t.outcome,
       d.status, coalesce(d.attempt, 0) AS run_attempt
FROM unnest(%(nominals)b::timestamptz[], %(task_ids)b::uuid[]) AS m (nominal_at, task_id)
CROSS JOIN LATERAL (
    SELECT * FROM dbbeat_tick
    WHERE schedule_id = %(schedule_id)s AND nominal_at = m.nominal_at AND task_id = m.task_id
      AND nominal_at >= %(first)s
    LIMIT 1
) AS t
LEFT JOIN LATERAL (
    SELECT status, attempt FROM dbbeat_dedup
    WHERE task_id = m.task_id AND nominal_at = m.nominal_at AND nominal_at >= %(first)s
    LIMIT 1
) AS d ON true;

-- name: range_before
-- The nearest range of fire times not sent that begins before an instant and reaches it. Only so many
-- rows are looked at; should it stand further back, it is left whole.
SELECT nominal_at, task_id, state, claimed_at, last_at, count, reason
FROM (SELECT * FROM dbbeat_tick WHERE schedule_id = %(schedule_id)s AND nominal_at < %(instant)s
      ORDER BY nominal_at DESC LIMIT 2000) AS near
WHERE last_at >= %(instant)s AND state NOT IN ('recorded', 'sent', 'dead', 'cancelled')
ORDER BY nominal_at DESC LIMIT 1;

-- name: own_under_way
-- Whether one of the schedule's newest ticks, but for these, is on its way or running.
SELECT EXISTS (
    SELECT FROM (SELECT * FROM dbbeat_tick WHERE schedule_id = %(schedule_id)s
                   AND nominal_at >= now() - interval '2 days'
                 ORDER BY nominal_at DESC LIMIT 100) AS t
    LEFT JOIN dbbeat_dedup d ON d.task_id = t.task_id AND d.nominal_at = t.nominal_at
    WHERE (t.state = 'recorded' OR t.awaited) AND d.status IS DISTINCT FROM 'done'
      AND NOT t.task_id = ANY(%(but)s)
) AS busy;

-- name: backfill_send
-- New ticks. What was there before is somebody's already.
INSERT INTO dbbeat_tick (schedule_id, nominal_at, task_id, state, kind, due_at, replica, reason)
SELECT %(schedule_id)s, nominal_at, task_id, 'recorded', 'backfill', now(), %(replica)s, reason
FROM unnest(%(nominals)b::timestamptz[], %(task_ids)b::uuid[], %(reasons)b::text[])
     AS m (nominal_at, task_id, reason)
ON CONFLICT DO NOTHING
RETURNING nominal_at, task_id, due_at, attempt;

-- name: backfill_again
-- A row that is there becomes a tick to be sent, if it still stands as it was seen. One that was sent
-- before gets the next attempt: above all that were begun. The schedule comes with each key, and not once
-- for all: see known_ticks. What was ended for a newer one may be taken again.
WITH again AS (
    UPDATE dbbeat_tick t
    SET state = 'recorded', kind = 'backfill', replica = %(replica)s, claimed_at = now(), due_at = now(),
        sent_at = NULL, awaited = false, outcome = NULL, losses = 0, last_at = NULL, count = 1,
        reason = m.reason,
        attempt = CASE WHEN t.sent_at IS NULL AND m.run_attempt = 0 THEN t.attempt
                       ELSE least(30000, 1 + greatest(t.attempt, m.run_attempt)) END
    FROM unnest(%(schedule_ids)b::uuid[], %(nominals)b::timestamptz[], %(task_ids)b::uuid[],
                %(claims)b::timestamptz[], %(states)b::text[], %(run_attempts)b::int[], %(reasons)b::text[])
         AS m (schedule_id, nominal_at, task_id, claimed_at, state, run_attempt, reason)
    WHERE t.schedule_id = m.schedule_id AND t.nominal_at = m.nominal_at AND t.task_id = m.task_id
      AND t.nominal_at >= %(first)s
      AND CASE WHEN t.state = m.state AND NOT t.awaited THEN t.claimed_at = m.claimed_at ELSE false END
    RETURNING t.nominal_at, t.task_id, t.due_at, t.attempt
), allowed AS (
    DELETE FROM dbbeat_cancelled WHERE task_id IN (SELECT task_id FROM again)
)
SELECT nominal_at, task_id, due_at, attempt FROM again;

-- name: shorten_range
UPDATE dbbeat_tick SET last_at = %(last_at)s, count = %(count)s
WHERE schedule_id = %(schedule_id)s AND nominal_at = %(nominal_at)s AND task_id = %(task_id)s
  AND state = %(state)s;

-- name: set_range_aside
-- A range that is left whole gives the id of its first fire time to a tick.
UPDATE dbbeat_tick SET task_id = gen_random_uuid()
WHERE schedule_id = %(schedule_id)s AND nominal_at = %(nominal_at)s AND task_id = %(task_id)s
  AND state = %(state)s;

-- name: move_backfill
UPDATE dbbeat_backfill
SET next_at = %(next_at)s, paced_at = %(paced_at)s, open_nominals = %(open_nominals)s,
    open_ids = %(open_ids)s, passed = passed + %(passed)s, sent = sent + %(sent)s,
    done = done + %(done)s, failed = failed + %(failed)s
WHERE id = %(id)s;

-- name: end_backfill
-- Finished, or stopped with the reason.
UPDATE dbbeat_backfill SET state = %(state)s, reason = %(reason)s, ended_at = now()
WHERE id = %(id)s AND state = 'running';
