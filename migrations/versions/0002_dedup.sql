-- Runs: which task ids workers have taken. Workers write it, nobody else.
-- This file also runs by itself (`dbbeat migrate --dedup-only`) in a database that only holds effects.
CREATE TABLE IF NOT EXISTS dbbeat_dedup (
    task_id      uuid NOT NULL,
    nominal_at   timestamptz NOT NULL,
    schedule     text NOT NULL,
    status       text NOT NULL,
    attempt      integer NOT NULL,
    retries      integer NOT NULL DEFAULT 0,
    worker       text NOT NULL,
    lease_until  timestamptz NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at     timestamptz,
    result       text,
    error        text,
    traceback    text,
    earlier      jsonb NOT NULL DEFAULT '[]',
    PRIMARY KEY (task_id, nominal_at),
    CONSTRAINT dbbeat_dedup_status_known
        CHECK (status IN ('running', 'retry', 'released', 'done', 'failed'))
) PARTITION BY RANGE (nominal_at);
CREATE TABLE IF NOT EXISTS dbbeat_dedup_default PARTITION OF dbbeat_dedup DEFAULT;

COMMENT ON TABLE dbbeat_dedup IS 'One row a tick that a worker has taken: its run.';
COMMENT ON COLUMN dbbeat_dedup.nominal_at IS 'The fire time by the schedule, as the message says it.';
COMMENT ON COLUMN dbbeat_dedup.status IS 'running; retry: the task retries by itself; released: given back, nothing done; done; failed.';
COMMENT ON COLUMN dbbeat_dedup.attempt IS 'Grows each time the tick changes hands: what fences a run that lost it.';
COMMENT ON COLUMN dbbeat_dedup.retries IS 'Celery''s own retries within the attempt.';
COMMENT ON COLUMN dbbeat_dedup.lease_until IS 'While it runs, and before this instant, nobody else may take it.';
COMMENT ON COLUMN dbbeat_dedup.result IS 'Celery''s result state: SUCCESS, FAILURE, RETRY, REJECTED, IGNORED, REVOKED.';
COMMENT ON COLUMN dbbeat_dedup.earlier IS 'Runs of this tick before: attempt, worker, started_at, ended_at, error and status: lost, stale (it came back too late), or as above.';

-- One partition a UTC day for ticks and for runs, from today for so many days; says how many it made.
-- A day that already has rows in the default partition takes them over. Attaching, unlike
-- CREATE … PARTITION OF, lets readers and writers of the other partitions go on. Of two at once the
-- second waits, and finds them made; who writes to the default partition waits, so that nothing
-- slips in behind the move.
CREATE OR REPLACE FUNCTION dbbeat_make_partitions(days integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    today date := (now() AT TIME ZONE 'UTC')::date;
    made integer := 0;
    parent text;
    first_at timestamptz;
    next_at timestamptz;
    partition_name text;
BEGIN
    PERFORM pg_advisory_xact_lock(coalesce(to_regclass('dbbeat_tick'), to_regclass('dbbeat_dedup'))::oid::bigint);
    FOREACH parent IN ARRAY ARRAY['dbbeat_tick', 'dbbeat_dedup'] LOOP
        CONTINUE WHEN to_regclass(parent) IS NULL;
        FOR day IN 0 .. days - 1 LOOP
            first_at := (today + day)::timestamp AT TIME ZONE 'UTC';
            next_at := (today + day + 1)::timestamp AT TIME ZONE 'UTC';
            partition_name := parent || to_char(today + day, '_YYYYMMDD');
            CONTINUE WHEN to_regclass(partition_name) IS NOT NULL;
            EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', parent || '_default');
            -- Room in each page, so that a row that ends where it began needs no new index entry.
            EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL) WITH (fillfactor = 80)',
                           partition_name, parent);
            EXECUTE format('WITH moved AS (DELETE FROM %I'
                           ' WHERE nominal_at >= %L AND nominal_at < %L RETURNING *)'
                           ' INSERT INTO %I SELECT * FROM moved',
                           parent || '_default', first_at, next_at, partition_name);
            EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                           parent, partition_name, first_at, next_at);
            made := made + 1;
        END LOOP;
    END LOOP;
    RETURN made;
END $$;

-- One step of forgetting what is older than `keep`; says what it did, null when nothing is left to do.
-- A step is short, and gives up rather than wait long for its lock, for whoever comes after it waits as
-- well: detach one partition, drop one that was detached, or delete some rows of a default partition.
CREATE OR REPLACE FUNCTION dbbeat_retire(keep interval) RETURNS text LANGUAGE plpgsql
    SET lock_timeout = '200ms' AS $$
DECLARE
    oldest date := (now() AT TIME ZONE 'UTC' - keep)::date;
    oldest_day text := to_char(oldest, 'YYYYMMDD');
    parent text;
    victim text;
    deleted bigint;
BEGIN
    SELECT c.relname INTO victim FROM pg_class c
    WHERE c.relnamespace = quote_ident(current_schema())::regnamespace AND c.relkind = 'r' AND NOT c.relispartition
      AND c.relname ~ '^dbbeat_(tick|dedup)_[0-9]{8}$' AND right(c.relname, 8) < oldest_day
    ORDER BY c.relname LIMIT 1;
    IF FOUND THEN
        EXECUTE format('DROP TABLE %I', victim);
        RETURN 'dropped ' || victim;
    END IF;
    FOREACH parent IN ARRAY ARRAY['dbbeat_tick', 'dbbeat_dedup'] LOOP
        CONTINUE WHEN to_regclass(parent) IS NULL;
        SELECT c.relname INTO victim FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = to_regclass(parent) AND c.relname ~ '_[0-9]{8}$'
          AND right(c.relname, 8) < oldest_day
        ORDER BY c.relname LIMIT 1;
        IF FOUND THEN
            EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', parent, victim);
            RETURN 'detached ' || victim;
        END IF;
        EXECUTE format('DELETE FROM %1$I WHERE ctid = ANY(ARRAY('
                       'SELECT ctid FROM %1$I WHERE nominal_at < %2$L LIMIT 5000))',
                       parent || '_default', oldest::timestamp AT TIME ZONE 'UTC');
        GET DIAGNOSTICS deleted = ROW_COUNT;
        IF deleted > 0 THEN
            RETURN format('deleted %s rows of %s_default', deleted, parent);
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

-- These run with their owner's rights, so that roles without any on the tables may call them; nothing
-- of the caller's is looked up.
DO $$
DECLARE
    home text := current_schema();
BEGIN
    EXECUTE format('ALTER FUNCTION dbbeat_make_partitions(integer) SECURITY DEFINER SET search_path = %I, pg_temp', home);
    EXECUTE format('ALTER FUNCTION dbbeat_retire(interval) SECURITY DEFINER SET search_path = %I, pg_temp', home);
END $$;
REVOKE ALL ON FUNCTION dbbeat_make_partitions(integer), dbbeat_retire(interval) FROM PUBLIC;

SELECT dbbeat_make_partitions(7);
