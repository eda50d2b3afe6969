-- name: record_not_sent
INSERT INTO dbbeat_tick (schedule_id, nominal_at, task_id, state, due_at, replica, epoch,
                         last_at, count, reason)
SELECT schedule_id, first_at, task_id, state, first_at, %(replica)s, epoch, last_at, count, reason
FROM unnest(%(schedule_ids)b::uuid[], %(first_ats)b::timestamptz[], %(task_ids)b::uuid[],
            %(states)b::text[], %(epochs)b::bigint[], %(last_ats)b::timestamptz[],
            %(counts)b::bigint[], %(reasons)b::text[])
     AS n (schedule_id, first_at, task_id, state, epoch, last_at, count, reason)
ON CONFLICT DO NOTHING;

-- name: mark_sent
-- Only what is recorded becomes sent.
UPDATE dbbeat_tick t
SET state = 'sent', sent_at = now()
FROM unnest(%(schedule_ids)b::uuid[], %(nominals)b::timestamptz[], %(task_ids)b::uuid[])
     AS m (schedule_id, nominal_at, task_id)
WHERE t.schedule_id = m.schedule_id AND t.nominal_at = m.nominal_at AND t.task_id = m.task_id
  AND t.state = 'recorded';

-- name: give_up
-- A recorded tick that is not to be sent any more, with the reason.
UPDATE dbbeat_tick t
SET state = 'missed', reason = m.reason
FROM unnest(%(schedule_ids)b::uuid[], %(nominals)b::timestamptz[], %(task_ids)b::uuid[],
            %(reasons)b::text[])
     AS m (schedule_id, nominal_at, task_id, reason)
WHERE t.schedule_id = m.schedule_id AND t.nominal_at = m.nominal_at AND t.task_id = m.task_id
  AND t.state = 'recorded';

-- name: adopt_unsent
-- Takes over ticks that another replica recorded and has not sent: at once when that replica is known
-- to be gone or says that it cannot reach the broker, else when it has had a lease's time for it; this replica's own, where it says so, after
-- a lease's time as well. Skips what somebody else is adopting.
WITH alive AS MATERIALIZED (
    SELECT id FROM dbbeat_replica r
    WHERE ready AND seen_at > now() - %(lease_ttl)s
      AND (listener_pid IS NULL
           OR EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = r.listener_pid))
), lost AS MATERIALIZED (
    SELECT schedule_id, nominal_at, task_id FROM dbbeat_tick
    WHERE state = 'recorded' AND (replica <> %(replica)s OR %(own_too)s)
      AND (claimed_at < now() - %(lease_ttl)s OR (replica <> %(replica)s AND replica NOT IN (SELECT id FROM alive)))
    ORDER BY claimed_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), adopted AS (
    UPDATE dbbeat_tick t
    SET replica = %(replica)s, claimed_at = now(), attempt = least(attempt + 1, 30000), kind = 'recovery'
    FROM lost
    WHERE t.schedule_id = lost.schedule_id AND t.nominal_at = lost.nominal_at
      AND t.task_id = lost.task_id
    RETURNING t.schedule_id, t.nominal_at, t.task_id, t.due_at, t.attempt
)
SELECT now() AS now, a.schedule_id, a.nominal_at AS tick_nominal_at, a.task_id, a.due_at AS tick_due_at,
       a.attempt, s.id IS NULL AS deleted, s.version, s.name, s.task, s.kind, s.expression,
       s.timezone, s.args::text AS args, s.kwargs::text AS kwargs, s.options::text AS options,
       s.misfire_grace, s.jitter, s.start_at, s.end_at, s.max_runs
FROM adopted a LEFT JOIN dbbeat_schedule s ON s.id = a.schedule_id
ORDER BY a.nominal_at;
