-- Ticks that were sent to guarded workers, until it is known how they ended. Where keys are given, the
-- oldest fire time is, too: the planner need not look at the partitions of the days before. For CASE in
-- conditions see tick.sql.

-- name: awaited_slice
-- The next ones after a place in the order of their claims.
SELECT schedule_id, nominal_at, task_id, claimed_at FROM dbbeat_tick
WHERE awaited AND (claimed_at, task_id) > (%(claimed_at)s, %(task_id)s)
ORDER BY claimed_at, task_id
LIMIT %(limit)s;

-- name: settle
-- What is done is awaited no more. The others come back, with what their workers said last.
WITH known AS MATERIALIZED (
    SELECT m.schedule_id, m.nominal_at, m.task_id, m.claimed_at, d.status, d.lease_until
    FROM unnest(%(schedule_ids)b::uuid[], %(nominals)b::timestamptz[], %(task_ids)b::uuid[],
                %(claims)b::timestamptz[]) AS m (schedule_id, nominal_at, task_id, claimed_at)
    LEFT JOIN dbbeat_dedup d ON d.task_id = m.task_id AND d.nominal_at = m.nominal_at
          AND d.nominal_at >= %(first)s
), done AS (
    UPDATE dbbeat_tick t SET awaited = false, outcome = 'done'
    FROM known
    WHERE t.schedule_id = known.schedule_id AND t.nominal_at = known.nominal_at
      AND t.task_id = known.task_id AND t.nominal_at >= %(first)s
      AND CASE WHEN t.awaited THEN t.claimed_at = known.claimed_at ELSE false END AND known.status = 'done'
)
SELECT now() AS now, schedule_id, nominal_at, task_id, claimed_at, status, lease_until
FROM known WHERE status IS DISTINCT FROM 'done';

-- name: suspects
-- All that a decision rests on, of those that are still awaited.
SELECT now() AS now, t.schedule_id, t.nominal_at AS tick_nominal_at, t.task_id, t.due_at AS tick_due_at,
       t.kind AS tick_kind, t.attempt, t.losses, t.claimed_at, coalesce(t.sent_at, t.claimed_at) AS sent_at, d.status,
       coalesce(d.attempt, 0) AS run_attempt, d.lease_until, d.ended_at, d.error,
       s.id IS NULL AS deleted, s.version, s.name, s.task, s.kind, s.expression, s.timezone,
       coalesce(t.arguments -> 'args', s.args)::text AS args,
       coalesce(t.arguments -> 'kwargs', s.kwargs)::text AS kwargs, s.options::text AS options, s.misfire_grace,
       s.overlap, s.jitter, s.start_at, s.end_at, s.max_runs,
       s.exclude::text AS exclude, s.catch_up, s.catch_up_limit, s.max_concurrent, s.max_attempts, s.on_failure,
       s.resend_after, s.pause_after
FROM unnest(%(schedule_ids)b::uuid[], %(nominals)b::timestamptz[], %(task_ids)b::uuid[])
     AS m (schedule_id, nominal_at, task_id)
JOIN dbbeat_tick t ON t.schedule_id = m.schedule_id AND t.nominal_at = m.nominal_at
 AND t.task_id = m.task_id AND t.nominal_at >= %(first)s
LEFT JOIN dbbeat_dedup d ON d.task_id = m.task_id AND d.nominal_at = m.nominal_at
      AND d.nominal_at >= %(first)s
LEFT JOIN dbbeat_schedule s ON s.id = m.schedule_id
WHERE t.awaited AND d.status IS DISTINCT FROM 'done'
ORDER BY t.claimed_at, t.task_id;

-- name: overtaken
-- Those of which a later tick of the same schedule was claimed later, and has been taken. Only the
-- next few are looked at: if what came right after is not taken, it all may be waiting.
SELECT m.task_id
FROM unnest(%(schedule_ids)b::uuid[], %(nominals)b::timestamptz[], %(task_ids)b::uuid[],
            %(claims)b::timestamptz[]) AS m (schedule_id, nominal_at, task_id, claimed_at)
WHERE EXISTS (
    SELECT FROM (
        SELECT t.task_id, t.nominal_at FROM dbbeat_tick t
        WHERE t.schedule_id = m.schedule_id AND t.state IN ('sent', 'dead') AND t.claimed_at > m.claimed_at
          AND t.nominal_at > greatest(m.nominal_at, m.claimed_at - interval '1 minute')
          AND t.nominal_at < m.claimed_at + interval '2 days'
          AND t.nominal_at >= %(first)s
        ORDER BY t.nominal_at
        LIMIT 5
    ) AS later
    JOIN dbbeat_dedup d ON d.task_id = later.task_id AND d.nominal_at = later.nominal_at
     AND d.nominal_at >= %(first)s
);

-- name: resend
-- From sent back to recorded, if it still stands as it was seen: from its commit it will be sent again,
-- whoever dies. The attempt is above all that were begun.
UPDATE dbbeat_tick t
SET state = 'recorded', awaited = false, claimed_at = now(), replica = %(replica)s,
    kind = CASE WHEN t.kind IN ('manual', 'backfill') THEN t.kind ELSE 'recovery' END,
    attempt = least(greatest(t.attempt, m.run_attempt) + 1, 30000), losses = t.losses + 1
FROM unnest(%(schedule_ids)b::uuid[], %(nominals)b::timestamptz[], %(task_ids)b::uuid[],
            %(claims)b::timestamptz[], %(run_attempts)b::int[])
     AS m (schedule_id, nominal_at, task_id, claimed_at, run_attempt)
WHERE t.schedule_id = m.schedule_id AND t.nominal_at = m.nominal_at AND t.task_id = m.task_id
  AND t.nominal_at >= %(first)s
  AND CASE WHEN t.awaited AND t.state = 'sent' THEN t.claimed_at = m.claimed_at ELSE false END
RETURNING t.task_id, t.kind, t.attempt, now() - coalesce(t.sent_at, m.claimed_at) AS waited;

-- name: close_awaited
-- Nothing more is awaited of these, if they still stand as they were seen; each with its reason.
UPDATE dbbeat_tick t
SET awaited = false, state = m.state, outcome = m.outcome, reason = m.reason
FROM unnest(%(schedule_ids)b::uuid[], %(nominals)b::timestamptz[], %(task_ids)b::uuid[],
            %(claims)b::timestamptz[], %(states)b::text[], %(outcomes)b::text[], %(reasons)b::text[])
     AS m (schedule_id, nominal_at, task_id, claimed_at, state, outcome, reason)
WHERE t.schedule_id = m.schedule_id AND t.nominal_at = m.nominal_at AND t.task_id = m.task_id
  AND t.nominal_at >= %(first)s
  AND CASE WHEN t.awaited AND t.state = 'sent' THEN t.claimed_at = m.claimed_at ELSE false END
RETURNING t.task_id;

-- name: revive
-- Given up, and then done after all: by a message that was found, or a run that was only slow. The
-- newest are looked at.
WITH dead AS MATERIALIZED (
    SELECT schedule_id, nominal_at, task_id FROM dbbeat_tick
    WHERE state = 'dead' ORDER BY nominal_at DESC LIMIT 5000
)
UPDATE dbbeat_tick t SET state = 'sent', outcome = 'done', reason = NULL
FROM dead JOIN dbbeat_dedup d ON d.task_id = dead.task_id AND d.nominal_at = dead.nominal_at
WHERE t.schedule_id = dead.schedule_id AND t.nominal_at = dead.nominal_at AND t.task_id = dead.task_id
  AND t.state = 'dead' AND d.status = 'done';

-- name: queue_readers
-- The queues that workers with the guard have read within a day, whether one of these is alive, and
-- whether one that is holds messages that it has not begun with.
SELECT queue, bool_or(seen_at > now() - %(alive)s) AS live,
       bool_or(seen_at > now() - %(alive)s AND holding > 0) AS holding
FROM dbbeat_worker, unnest(queues) AS queue
WHERE seen_at > now() - interval '1 day'
GROUP BY queue;
