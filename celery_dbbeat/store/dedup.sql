-- name: take
-- Takes a task id that nobody had: the usual case, by a statement that is cheap to plan. Nobody takes one
-- that was cancelled.
INSERT INTO dbbeat_dedup (task_id, nominal_at, schedule, status, attempt, retries, worker, lease_until)
SELECT %(task_id)s, %(nominal_at)s, %(schedule)s, 'running', %(attempt)s, %(retries)s, %(worker)s,
       now() + %(lease)s
WHERE NOT EXISTS (SELECT FROM dbbeat_cancelled WHERE task_id = %(task_id)s)
ON CONFLICT DO NOTHING
RETURNING attempt;

-- name: take_over
-- Takes a task id that somebody may have had, in one statement and so for one run alone: where
-- Celery's own retry goes on, where whoever has it lost it, or where it was sent again on purpose
-- after it failed. No row comes back: it is somebody's, done, or cancelled.
INSERT INTO dbbeat_dedup AS d (task_id, nominal_at, schedule, status, attempt, retries, worker, lease_until)
SELECT %(task_id)s, %(nominal_at)s, %(schedule)s, 'running', %(attempt)s, %(retries)s, %(worker)s,
       now() + %(lease)s
WHERE NOT EXISTS (SELECT FROM dbbeat_cancelled WHERE task_id = %(task_id)s)
ON CONFLICT (task_id, nominal_at) DO UPDATE
SET status = 'running', retries = excluded.retries, worker = excluded.worker,
    lease_until = excluded.lease_until, started_at = clock_timestamp(), ended_at = NULL,
    result = NULL, error = NULL, traceback = NULL,
    attempt = CASE WHEN excluded.attempt = d.attempt AND excluded.retries > d.retries THEN d.attempt
                   ELSE greatest(d.attempt + 1, excluded.attempt) END,
    earlier = d.earlier || jsonb_build_object(
        'attempt', d.attempt, 'retries', d.retries, 'worker', d.worker, 'error', d.error,
        'status', CASE d.status WHEN 'running' THEN 'lost' ELSE d.status END,
        'started_at', d.started_at, 'ended_at', d.ended_at)
WHERE (d.status IN ('running', 'retry') AND excluded.attempt = d.attempt AND excluded.retries > d.retries)
   OR (d.status = 'running' AND d.lease_until < now())
   OR (d.status IN ('retry', 'failed') AND excluded.attempt > d.attempt)
   OR d.status = 'released'
RETURNING attempt;

-- name: finish
-- Says how a run ended, if it still has the tick. An effect that was committed stays done.
UPDATE dbbeat_dedup
SET status = CASE status WHEN 'done' THEN 'done' ELSE %(status)s::text END, result = %(result)s,
    error = %(error)s, traceback = %(traceback)s, lease_until = now() + %(rest)s,
    ended_at = coalesce(ended_at, clock_timestamp())
WHERE task_id = %(task_id)s AND nominal_at = %(nominal_at)s
  AND attempt = %(attempt)s AND retries = %(retries)s AND status IN ('running', 'done', %(status)s)
RETURNING status;

-- name: note_stale
-- Of a run that lost its tick and came back: it is not merely lost, it is known to be stale.
UPDATE dbbeat_dedup
SET earlier = to_jsonb(ARRAY(
        SELECT CASE WHEN (run ->> 'attempt')::int = %(attempt)s AND (run ->> 'retries')::int = %(retries)s
                    THEN run || jsonb_build_object('status', 'stale', 'ended_at', clock_timestamp())
                    ELSE run END
        FROM jsonb_array_elements(earlier) AS run))
WHERE task_id = %(task_id)s AND nominal_at = %(nominal_at)s;

-- name: renew_runs
-- Longer leases for runs that still have their ticks. Never waits: a row that is locked is just
-- being marked done.
WITH mine AS (
    SELECT d.task_id, d.nominal_at
    FROM unnest(%(task_ids)b::uuid[], %(nominals)b::timestamptz[], %(attempts)b::int[], %(retries)b::int[])
         AS m (task_id, nominal_at, attempt, retries)
    JOIN dbbeat_dedup d ON d.task_id = m.task_id AND d.nominal_at = m.nominal_at
     AND d.attempt = m.attempt AND d.retries = m.retries
    WHERE d.status = 'running'
    FOR UPDATE OF d SKIP LOCKED
)
UPDATE dbbeat_dedup d SET lease_until = now() + %(lease)s
FROM mine WHERE d.task_id = mine.task_id AND d.nominal_at = mine.nominal_at;

-- name: run_status
SELECT status, attempt FROM dbbeat_dedup WHERE task_id = %(task_id)s AND nominal_at = %(nominal_at)s;

-- name: is_cancelled
-- Whether a task is asked to end, for a newer tick of its schedule.
SELECT EXISTS (SELECT FROM dbbeat_cancelled WHERE task_id = %(task_id)s) AS cancelled;

-- name: mark_effect
-- In the transaction of the effect: both are committed, or neither. In dbbeat's own database the run
-- is there, and only while it still has the tick does it become done. In another database the first
-- effect of a tick makes the row. No row comes back: this effect must not be.
INSERT INTO dbbeat_dedup AS d (task_id, nominal_at, schedule, status, attempt, retries, worker, lease_until, ended_at, result)
VALUES (CAST(%(task_id)s AS uuid), CAST(%(nominal_at)s AS timestamptz), %(schedule)s, 'done',
        CAST(%(attempt)s AS integer), CAST(%(retries)s AS integer), %(worker)s, now(), clock_timestamp(), 'SUCCESS')
ON CONFLICT (task_id, nominal_at) DO UPDATE
SET status = 'done', ended_at = clock_timestamp(), result = 'SUCCESS'
WHERE d.status = 'running' AND d.attempt = excluded.attempt AND d.retries = excluded.retries
RETURNING started_at < now() AS was_there;

-- name: effect_status
-- What is known of the tick where its effect is to be.
SELECT status, attempt FROM dbbeat_dedup
WHERE task_id = CAST(%(task_id)s AS uuid) AND nominal_at = CAST(%(nominal_at)s AS timestamptz);

-- name: discard
-- A worker's main process gave the message up: somebody revoked it, or it does not know the task. A
-- tick that no worker had taken gets a row that says so, and so does a run that was terminated. A run
-- of it that goes on elsewhere is left alone.
INSERT INTO dbbeat_dedup AS d (task_id, nominal_at, schedule, status, attempt, worker, lease_until, ended_at, result, error)
VALUES (%(task_id)s, %(nominal_at)s, %(schedule)s, %(status)s, %(attempt)s, %(worker)s, now() + %(rest)s,
        clock_timestamp(), %(result)s, %(error)s)
ON CONFLICT (task_id, nominal_at) DO UPDATE
SET status = excluded.status, ended_at = excluded.ended_at, result = excluded.result,
    error = excluded.error, lease_until = excluded.lease_until
WHERE CASE d.status WHEN 'running' THEN %(terminated)s
                    WHEN 'released' THEN true
                    WHEN 'done' THEN false ELSE excluded.attempt > d.attempt END;
