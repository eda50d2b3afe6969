-- name: record_not_sent
INSERT INTO dbbeat_tick (schedule_id, nominal_at, task_id, state, due_at, replica, epoch,
                         last_at, count, reason)
SELECT schedule_id, first_at, task_id, state, first_at, %(replica)s, epoch, last_at, count, reason
FROM unnest(%(schedule_ids)b::uuid[], %(first_ats)b::timestamptz[], %(task_ids)b::uuid[],
            %(states)b::text[], %(epochs)b::bigint[], %(last_ats)b::timestamptz[],
            %(counts)b::bigint[], %(reasons)b::text[])
     AS n (schedule_id, first_at, task_id, state, epoch, last_at, count, reason)
ON CONFLICT DO NOTHING;

-- name: lengthen
-- Ranges that go on with one that is there: it gets longer, if it still ends where it did. Nobody else
-- has the cursor meanwhile, but a backfill may have taken fire times out of the range before.
UPDATE dbbeat_tick t SET last_at = n.last_at, count = t.count + n.count, reason = n.reason
FROM unnest(%(schedule_ids)b::uuid[], %(nominals)b::timestamptz[], %(task_ids)b::uuid[],
            %(untils)b::timestamptz[], %(states)b::text[], %(last_ats)b::timestamptz[],
            %(counts)b::bigint[], %(reasons)b::text[])
     AS n (schedule_id, nominal_at, task_id, until, state, last_at, count, reason)
WHERE t.schedule_id = n.schedule_id AND t.nominal_at = n.nominal_at AND t.task_id = n.task_id
  AND t.nominal_at >= %(first)s AND t.state = n.state AND t.last_at = n.until
RETURNING t.schedule_id;

-- name: mark_sent
-- Only what is recorded becomes sent, and only by the sending of this attempt: who comes late must not
-- mark what was put back meanwhile to be sent once more.
--
-- Ticks are to be found by their keys. Told `state = 'recorded'` plainly, the planner believes that
-- next to nothing is, and compares all that is with each key; inside CASE it does not see that. Of the
-- keys it is told the oldest fire time, and need not look at the partitions of the days before; told
-- the newest as well, it would believe that next to nothing lies between.
UPDATE dbbeat_tick t
SET state = 'sent', sent_at = coalesce(t.sent_at, now()), awaited = %(guarded)s
FROM unnest(%(schedule_ids)b::uuid[], %(nominals)b::timestamptz[], %(task_ids)b::uuid[], %(attempts)b::int[])
     AS m (schedule_id, nominal_at, task_id, attempt)
WHERE t.schedule_id = m.schedule_id AND t.nominal_at = m.nominal_at AND t.task_id = m.task_id
  AND t.nominal_at >= %(first)s
  AND CASE WHEN t.state = 'recorded' THEN t.attempt = m.attempt ELSE false END;

-- name: give_up
-- A recorded tick that is not to be sent any more, with the reason. Had it been sent before, it is dead.
UPDATE dbbeat_tick t
SET state = CASE WHEN t.attempt > 1 THEN 'dead' ELSE 'missed' END, reason = m.reason
FROM unnest(%(schedule_ids)b::uuid[], %(nominals)b::timestamptz[], %(task_ids)b::uuid[],
            %(attempts)b::int[], %(reasons)b::text[])
     AS m (schedule_id, nominal_at, task_id, attempt, reason)
WHERE t.schedule_id = m.schedule_id AND t.nominal_at = m.nominal_at AND t.task_id = m.task_id
  AND t.nominal_at >= %(first)s
  AND CASE WHEN t.state = 'recorded' THEN t.attempt = m.attempt ELSE false END;

-- name: lost_unsent
-- Locks ticks that another replica recorded and has not sent: at once when that replica is known to be
-- gone or says that it cannot reach the broker, else when it has had time for it; this replica's own,
-- where it says so, after a lease's time. Skips what somebody else is adopting.
WITH alive AS MATERIALIZED (
    SELECT id FROM dbbeat_replica r
    WHERE ready AND seen_at > now() - %(lease_ttl)s
      AND (listener_pid IS NULL
           OR EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = r.listener_pid))
)
SELECT schedule_id, nominal_at, task_id FROM dbbeat_tick
WHERE state = 'recorded'
  AND CASE WHEN replica = %(replica)s THEN %(own_too)s AND claimed_at < now() - %(lease_ttl)s
           ELSE claimed_at < now() - %(patience)s OR replica NOT IN (SELECT id FROM alive) END
ORDER BY claimed_at
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED;

-- name: adopt_unsent
-- Takes over what is locked. It is the same sending, not known to have happened, so the attempt stays.
WITH adopted AS (
    UPDATE dbbeat_tick t
    SET replica = %(replica)s, claimed_at = now(),
        kind = CASE WHEN t.kind IN ('manual', 'backfill') THEN t.kind ELSE 'recovery' END
    FROM unnest(%(schedule_ids)b::uuid[], %(nominals)b::timestamptz[], %(task_ids)b::uuid[])
         AS m (schedule_id, nominal_at, task_id)
    WHERE t.schedule_id = m.schedule_id AND t.nominal_at = m.nominal_at AND t.task_id = m.task_id
      AND t.nominal_at >= %(first)s
    RETURNING t.schedule_id, t.nominal_at, t.task_id, t.due_at, t.attempt, t.kind, t.arguments,
              CASE WHEN t.losses > 0 THEN now() - t.sent_at END AS waited
)
SELECT now() AS now, a.schedule_id, a.nominal_at AS tick_nominal_at, a.task_id, a.due_at AS tick_due_at,
       a.attempt, a.kind AS tick_kind, coalesce(a.waited, interval '0') AS waited,
       s.id IS NULL AS deleted, s.version, s.name, s.task, s.kind, s.expression,
       s.timezone, coalesce(a.arguments -> 'args', s.args)::text AS args,
       coalesce(a.arguments -> 'kwargs', s.kwargs)::text AS kwargs, s.options::text AS options,
       s.misfire_grace, s.overlap, s.jitter, s.start_at, s.end_at, s.max_runs,
       s.exclude::text AS exclude, s.catch_up, s.catch_up_limit, s.max_concurrent
FROM adopted a LEFT JOIN dbbeat_schedule s ON s.id = a.schedule_id
ORDER BY a.nominal_at;
