-- What people do with schedules. Nothing here writes a row that the app's code owns.

-- name: act_as
-- For this transaction alone: who does it, and by what way, for the records.
SELECT set_config('dbbeat.user', %(user)s, true), set_config('dbbeat.source', %(source)s, true);

-- name: put_schedules
-- Inserts schedules. Where a name is there already, that row becomes as given, if `overwrite` says so;
-- not if it is so already, nor if the code owns it. `keep_state`: one that is paused stays paused, one
-- that is finished does not start anew. Returns the rows written, and which of them are new.
INSERT INTO dbbeat_schedule AS s (
    name, task, kind, expression, timezone, args, kwargs, options, state, note, misfire_grace, catch_up,
    catch_up_limit, overlap, max_concurrent, jitter, start_at, end_at, max_runs, exclude, labels,
    description, max_attempts, on_failure, resend_after, pause_after)
SELECT name, task, kind, expression, timezone, args::jsonb, kwargs::jsonb, options::jsonb,
       coalesce(state, 'active'), note, misfire_grace, catch_up, catch_up_limit, overlap, max_concurrent,
       jitter, start_at, end_at, max_runs, exclude::jsonb, labels::jsonb, description, max_attempts,
       on_failure, resend_after, pause_after
FROM unnest(%(name)b::text[], %(task)b::text[], %(kind)b::text[], %(expression)b::text[],
            %(timezone)b::text[], %(args)b::text[], %(kwargs)b::text[], %(options)b::text[],
            %(state)b::text[], %(note)b::text[], %(misfire_grace)b::interval[], %(catch_up)b::text[],
            %(catch_up_limit)b::integer[], %(overlap)b::text[], %(max_concurrent)b::integer[],
            %(jitter)b::interval[], %(start_at)b::timestamptz[], %(end_at)b::timestamptz[],
            %(max_runs)b::bigint[], %(exclude)b::text[], %(labels)b::text[], %(description)b::text[],
            %(max_attempts)b::smallint[], %(on_failure)b::text[], %(resend_after)b::interval[],
            %(pause_after)b::integer[])
     AS given (name, task, kind, expression, timezone, args, kwargs, options, state, note, misfire_grace,
               catch_up, catch_up_limit, overlap, max_concurrent, jitter, start_at, end_at, max_runs,
               exclude, labels, description, max_attempts, on_failure, resend_after, pause_after)
ON CONFLICT (name) DO UPDATE
SET task = excluded.task, kind = excluded.kind, expression = excluded.expression,
    timezone = excluded.timezone, args = excluded.args, kwargs = excluded.kwargs,
    options = excluded.options,
    state = CASE WHEN %(keep_state)s THEN s.state ELSE excluded.state END,
    note = CASE WHEN %(keep_state)s THEN s.note ELSE excluded.note END,
    misfire_grace = excluded.misfire_grace, catch_up = excluded.catch_up,
    catch_up_limit = excluded.catch_up_limit, overlap = excluded.overlap,
    max_concurrent = excluded.max_concurrent, jitter = excluded.jitter, start_at = excluded.start_at,
    end_at = excluded.end_at, max_runs = excluded.max_runs, exclude = excluded.exclude,
    labels = excluded.labels, description = excluded.description,
    max_attempts = excluded.max_attempts, on_failure = excluded.on_failure,
    resend_after = excluded.resend_after, pause_after = excluded.pause_after
WHERE %(overwrite)s AND s.owner = 'people'
  AND ((NOT %(keep_state)s AND (s.state, s.note) IS DISTINCT FROM (excluded.state, excluded.note)) OR
      (s.task, s.kind, s.expression, s.timezone, s.args, s.kwargs, s.options, s.misfire_grace, s.catch_up, s.catch_up_limit, s.overlap, s.max_concurrent, s.jitter, s.start_at,
       s.end_at, s.max_runs, s.exclude, s.labels, s.description, s.max_attempts, s.on_failure,
       s.resend_after, s.pause_after)
      IS DISTINCT FROM
      (excluded.task, excluded.kind, excluded.expression, excluded.timezone, excluded.args,
       excluded.kwargs, excluded.options, excluded.misfire_grace,
       excluded.catch_up, excluded.catch_up_limit, excluded.overlap, excluded.max_concurrent,
       excluded.jitter, excluded.start_at, excluded.end_at, excluded.max_runs, excluded.exclude,
       excluded.labels, excluded.description, excluded.max_attempts, excluded.on_failure,
       excluded.resend_after, excluded.pause_after))
RETURNING s.name, s.xmax = 0 AS created;

-- name: change_schedule
-- Everything that people may write, the name as well; only of the version that was read.
UPDATE dbbeat_schedule
SET name = %(name)s, task = %(task)s, kind = %(kind)s, expression = %(expression)s,
    timezone = %(timezone)s, args = %(args)s::jsonb, kwargs = %(kwargs)s::jsonb,
    options = %(options)s::jsonb, state = coalesce(%(state)s, state),
    note = %(note)s, misfire_grace = %(misfire_grace)s, catch_up = %(catch_up)s, catch_up_limit = %(catch_up_limit)s,
    overlap = %(overlap)s, max_concurrent = %(max_concurrent)s, jitter = %(jitter)s,
    start_at = %(start_at)s, end_at = %(end_at)s, max_runs = %(max_runs)s,
    exclude = %(exclude)s::jsonb, labels = %(labels)s::jsonb, description = %(description)s,
    max_attempts = %(max_attempts)s, on_failure = %(on_failure)s, resend_after = %(resend_after)s,
    pause_after = %(pause_after)s
WHERE id = %(id)s AND version = %(version)s AND owner = 'people'
RETURNING version;

-- name: lock_schedule
-- The row of that name, held until this transaction ends.
SELECT id, version, owner FROM dbbeat_schedule WHERE name = %(name)s FOR UPDATE;

-- name: delete_schedules
-- In the order of their names, as others take them, so that no two wait for each other.
WITH doomed AS MATERIALIZED (
    SELECT id FROM dbbeat_schedule WHERE name = ANY(%(names)s) AND owner = 'people'
    ORDER BY name FOR UPDATE
)
DELETE FROM dbbeat_schedule s USING doomed WHERE s.id = doomed.id
RETURNING s.name;

-- name: names_taken
-- Which of these names are there, and whose they are.
SELECT name, owner FROM dbbeat_schedule WHERE name = ANY(%(names)s) ORDER BY name;

-- name: read_schedules
-- Schedules by name, each with where it stands. A condition that is null does not count. Bounded by
-- name, so that each page costs the same; see 0003_views.sql for the index of each condition.
SELECT s.id AS schedule_id, s.name, s.task, s.kind, s.expression, s.timezone, s.args::text AS args,
       s.kwargs::text AS kwargs, s.options::text AS options, s.state, s.reason, s.note, s.misfire_grace,
       s.catch_up, s.catch_up_limit, s.overlap, s.max_concurrent, s.jitter, s.start_at, s.end_at,
       s.max_runs, s.exclude::text AS exclude, s.labels::text AS labels, s.description, s.max_attempts,
       s.on_failure, s.resend_after, s.pause_after, s.owner, s.version, s.created_at, s.updated_at,
       c.nominal_at, c.due_at, c.replan_from, coalesce(c.runs, 0) AS runs
FROM dbbeat_schedule s LEFT JOIN dbbeat_cursor c ON c.schedule_id = s.id
WHERE (%(names)s::text[] IS NULL OR s.name = ANY(%(names)s::text[]))
  AND (%(after)s::text IS NULL OR s.name > %(after)s)
  AND (%(state)s::text IS NULL OR s.state = %(state)s)
  AND (%(task)s::text IS NULL OR s.task = %(task)s)
  AND (%(queue)s::text IS NULL OR s.options ->> 'queue' = %(queue)s)
  AND (%(owner)s::text IS NULL OR s.owner = %(owner)s)
  AND (%(labels)s::jsonb IS NULL OR s.labels @> %(labels)s::jsonb)
  AND (%(words)s::tsquery IS NULL OR to_tsvector('simple'::regconfig, regexp_replace(
           s.name || ' ' || s.task || ' ' || s.description, '[^[:alnum:]]+', ' ', 'g')) @@ %(words)s::tsquery)
ORDER BY s.name
LIMIT %(limit)s;
