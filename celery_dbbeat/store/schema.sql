-- What the server and its tables are, before anything else is asked of them.

-- name: schema_version
SELECT current_setting('server_version_num')::int AS server_version,
       current_schema() AS schema,
       to_regclass('dbbeat_alembic_version') IS NOT NULL AS has_version_table;

-- name: current_version
SELECT version_num FROM dbbeat_alembic_version;

-- name: home_schema
-- The schema that the tables are really in: the channel of their notifications is named after it.
-- Not by ::regnamespace::text, which puts some names in quotes.
SELECT n.nspname::text AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = 'dbbeat_schedule'::regclass;

-- name: make_partitions
SELECT dbbeat_make_partitions(%(days)s) AS made;

-- name: retire
-- What a backfill brought back from before stays until a day after its end: its ids still mean something.
SELECT dbbeat_retire(greatest(%(keep)s::interval, (
    SELECT now() - min(start_at) FROM dbbeat_backfill
    WHERE state = 'running' OR cardinality(open_ids) > 0 OR ended_at > now() - interval '1 day'))) AS step;

-- name: retire_audit
SELECT dbbeat_retire_audit(%(keep)s) AS deleted;

-- name: database_now
SELECT clock_timestamp() AS now;
