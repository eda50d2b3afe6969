-- Who changed which schedule. The triggers of dbbeat_schedule write it, nobody else.

-- name: bearers
-- The ids of all schedules that have this name, or had it once.
SELECT id AS schedule_id FROM dbbeat_schedule WHERE name = %(name)s
UNION
SELECT schedule_id FROM dbbeat_audit WHERE before ? 'name' AND before ->> 'name' = %(name)s;

-- name: changes
-- The newest first.
SELECT a.schedule_id, a.name, a.changed_at, a.action, a.who, a.source, a.database_user, a.before, a.after
FROM dbbeat_audit a
WHERE a.schedule_id = ANY(%(schedule_ids)s)
ORDER BY a.id DESC
LIMIT %(limit)s;

-- name: turns
-- The changes of the *when* of these schedules, in order, each with the *when* that counted from then
-- on: what is now, or was at the end, with what later changes have as `before` laid back over it. And
-- how the cursor stands, of the same moment.
WITH turn AS (
    SELECT a.*,
           dbbeat_laid_over(a.before) OVER (PARTITION BY a.schedule_id ORDER BY a.id DESC
                                            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS later
    FROM dbbeat_audit a
    WHERE a.schedule_id = ANY(%(schedule_ids)s)
      AND (a.action <> 'update' OR a.after ?| dbbeat_when_columns())
)
SELECT t.schedule_id, t.name AS called, t.changed_at, t.action, t.who, t.source, t.database_user,
       t.before, t.after, t.stood_at,
       t.action IN ('delete', 'truncate') AS deleted,
       w.name, w.kind, w.expression, w.timezone, w.start_at, w.end_at, w.max_runs, w.jitter, w.exclude::text AS exclude,
       w.state,
       c.schedule_id IS NOT NULL AS has_cursor, c.nominal_at, c.due_at, c.replan_from, c.held_at, c.runs,
       c.waits_for, c.waits_since
FROM turn t
     LEFT JOIN dbbeat_schedule s ON s.id = t.schedule_id
     LEFT JOIN dbbeat_cursor c ON c.schedule_id = t.schedule_id
     CROSS JOIN LATERAL jsonb_populate_record(NULL::dbbeat_schedule, coalesce(to_jsonb(s), '{}') || t.later) w
ORDER BY t.schedule_id, t.id;

-- name: schedules_after
-- The next schedules by their ids, those deleted since that instant among them.
SELECT schedule_id FROM (
    (SELECT id AS schedule_id FROM dbbeat_schedule WHERE id > %(after)s ORDER BY id LIMIT %(limit)s)
    UNION
    (SELECT schedule_id FROM dbbeat_audit
     WHERE action IN ('delete', 'truncate') AND changed_at >= %(since)s AND schedule_id > %(after)s
     ORDER BY schedule_id LIMIT %(limit)s)
) AS found
ORDER BY schedule_id LIMIT %(limit)s;

-- name: ranges_over
-- Of each of these schedules the range of fire times not sent that reaches over this instant, if any.
SELECT r.schedule_id, r.last_at
FROM unnest(%(schedule_ids)b::uuid[]) AS one (schedule_id)
     CROSS JOIN LATERAL (
         SELECT t.schedule_id, t.nominal_at, t.last_at FROM dbbeat_tick t
         WHERE t.schedule_id = one.schedule_id AND t.last_at >= %(instant)s
         ORDER BY t.last_at LIMIT 1
     ) r
WHERE r.nominal_at < %(instant)s;

-- name: decided
-- What was decided of the fire times of a window, by schedule and time, from a place on.
SELECT schedule_id, nominal_at, last_at, task_id, state FROM dbbeat_tick
WHERE (schedule_id, nominal_at, task_id) > (%(schedule_id)s, %(nominal_at)s, %(task_id)s)
  AND schedule_id <= %(last_id)s AND nominal_at >= %(since)s AND nominal_at < %(before)s
ORDER BY schedule_id, nominal_at, task_id
LIMIT %(limit)s;
