-- name: earlier_imports
-- What stands under these names, and what else came from that source.
SELECT id, name, owner, state, version, labels->>'imported_from' AS source,
       labels->>'imported_id' AS source_id, labels->>'imported_as' AS imported_as
FROM dbbeat_schedule WHERE name = ANY(%(names)s)
UNION
SELECT id, name, owner, state, version, labels->>'imported_from', labels->>'imported_id',
       labels->>'imported_as'
FROM dbbeat_schedule WHERE labels @> jsonb_build_object('imported_from', %(source)s::text);

-- name: insert_imports
-- A name that somebody else took since stays theirs. The first version of a row is 1.
INSERT INTO dbbeat_schedule (name, task, kind, expression, timezone, args, kwargs, options, state, reason,
                             note, description, start_at, end_at, max_runs, owner, code_digest, labels)
SELECT name, task, kind, expression, timezone, args::jsonb, kwargs::jsonb, options::jsonb, state, reason,
       note, description, start_at, end_at, max_runs, owner, code_digest,
       jsonb_build_object('imported_from', %(source)s::text, 'imported_id', source_id,
                          'imported_as', '1:' || digest)
FROM unnest(%(names)s::text[], %(tasks)s::text[], %(kinds)s::text[], %(expressions)s::text[],
            %(timezones)s::text[], %(args)s::text[], %(kwargs)s::text[], %(options)s::text[],
            %(states)s::text[], %(reasons)s::text[], %(notes)s::text[], %(descriptions)s::text[],
            %(starts)s::timestamptz[], %(ends)s::timestamptz[], %(max_runs)s::bigint[],
            %(owners)s::text[], %(code_digests)s::text[], %(source_ids)s::text[], %(digests)s::text[])
     AS given (name, task, kind, expression, timezone, args, kwargs, options, state, reason, note,
               description, start_at, end_at, max_runs, owner, code_digest, source_id, digest)
ON CONFLICT (name) DO NOTHING
RETURNING id, name;

-- name: update_imports
-- Only what is still as it was read: who changed it since goes first.
UPDATE dbbeat_schedule s
SET name = given.name, task = given.task, kind = given.kind, expression = given.expression,
    timezone = given.timezone, args = given.args::jsonb, kwargs = given.kwargs::jsonb,
    options = given.options::jsonb, state = given.state, reason = given.reason, note = given.note,
    description = given.description, start_at = given.start_at, end_at = given.end_at,
    max_runs = given.max_runs, owner = given.owner, code_digest = given.code_digest,
    labels = s.labels || jsonb_build_object(
        'imported_from', %(source)s::text, 'imported_id', given.source_id,
        'imported_as', (given.version + 1) || ':' || given.digest)
FROM unnest(%(ids)s::uuid[], %(versions)s::bigint[], %(names)s::text[], %(tasks)s::text[],
            %(kinds)s::text[], %(expressions)s::text[], %(timezones)s::text[], %(args)s::text[],
            %(kwargs)s::text[], %(options)s::text[], %(states)s::text[], %(reasons)s::text[],
            %(notes)s::text[], %(descriptions)s::text[], %(starts)s::timestamptz[],
            %(ends)s::timestamptz[], %(max_runs)s::bigint[], %(owners)s::text[],
            %(code_digests)s::text[], %(source_ids)s::text[], %(digests)s::text[])
     AS given (id, version, name, task, kind, expression, timezone, args, kwargs, options, state, reason,
               note, description, start_at, end_at, max_runs, owner, code_digest, source_id, digest)
WHERE s.id = given.id AND s.version = given.version
RETURNING s.id, s.name;

-- name: go_on_from
SELECT dbbeat_go_on_from(%(ids)s::uuid[], %(instants)s::timestamptz[]) AS gone_on;
