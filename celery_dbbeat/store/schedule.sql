-- name: end_schedules
-- Never waits: whoever holds the row may be waiting for a cursor that this transaction holds.
WITH free AS (
    SELECT s.id, e.state, e.reason
    FROM unnest(%(schedule_ids)b::uuid[], %(versions)b::bigint[], %(states)b::text[], %(reasons)b::text[])
         AS e (id, version, state, reason)
    JOIN dbbeat_schedule s ON s.id = e.id AND s.version = e.version
    FOR UPDATE OF s SKIP LOCKED
)
UPDATE dbbeat_schedule s SET state = free.state, reason = free.reason
FROM free WHERE s.id = free.id
RETURNING s.id;

-- name: code_schedules
-- What stands in the table under the names that the code uses, and what the code owns.
SELECT name, owner, code_digest FROM dbbeat_schedule
WHERE owner = 'code' OR name = ANY(%(names)s);

-- name: put_code_schedule
-- People's rows are never touched; a row of the code's keeps its state (a pause) and its id.
INSERT INTO dbbeat_schedule (name, task, kind, expression, timezone, args, kwargs, options,
                             owner, code_digest)
VALUES (%(name)s, %(task)s, %(kind)s, %(expression)s, %(timezone)s, %(args)s::jsonb,
        %(kwargs)s::jsonb, %(options)s::jsonb, 'code', %(digest)s)
ON CONFLICT (name) DO UPDATE
SET task = excluded.task, kind = excluded.kind, expression = excluded.expression,
    timezone = excluded.timezone, args = excluded.args, kwargs = excluded.kwargs,
    options = excluded.options, code_digest = excluded.code_digest
WHERE dbbeat_schedule.owner = 'code';

-- name: drop_code_schedules
DELETE FROM dbbeat_schedule WHERE owner = 'code' AND name = ANY(%(names)s);
