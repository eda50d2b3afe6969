DROP FUNCTION dbbeat_replay, dbbeat_retire, dbbeat_make_partitions;
DROP TABLE dbbeat_worker, dbbeat_dedup;
DO $$
DECLARE
    name text;
BEGIN
    -- What dbbeat_retire detached and did not come to drop.
    FOR name IN SELECT relname FROM pg_class
        WHERE relnamespace = quote_ident(current_schema())::regnamespace AND relkind = 'r'
          AND NOT relispartition AND relname ~ '^dbbeat_(tick|dedup)_[0-9]{8}$' LOOP
        EXECUTE format('DROP TABLE %I', name);
    END LOOP;
    FOREACH name IN ARRAY ARRAY['revise', 'inserted', 'updated', 'deleted', 'truncated'] LOOP
        EXECUTE format('ALTER FUNCTION dbbeat_schedule_%s() SECURITY INVOKER', name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION dbbeat_schedule_%s() TO PUBLIC', name);
    END LOOP;
END $$;
DROP INDEX dbbeat_tick_awaited, dbbeat_tick_dead;
UPDATE dbbeat_tick SET state = 'sent' WHERE state = 'dead';
UPDATE dbbeat_tick SET kind = 'scheduled' WHERE kind IN ('backfill', 'manual');
ALTER TABLE dbbeat_tick
    DROP COLUMN awaited, DROP COLUMN outcome, DROP COLUMN losses,
    DROP CONSTRAINT dbbeat_tick_state_known,
    ADD CONSTRAINT dbbeat_tick_state_known
        CHECK (state IN ('recorded', 'sent', 'missed', 'coalesced', 'paused')),
    DROP CONSTRAINT dbbeat_tick_kind_known,
    ADD CONSTRAINT dbbeat_tick_kind_known CHECK (kind IN ('scheduled', 'catch_up', 'recovery'));
UPDATE dbbeat_schedule SET overlap = 'allow' WHERE overlap <> 'allow';
ALTER TABLE dbbeat_schedule
    DROP COLUMN max_attempts, DROP COLUMN on_failure, DROP COLUMN resend_after,
    DROP CONSTRAINT dbbeat_schedule_overlap_known,
    ADD CONSTRAINT dbbeat_schedule_overlap_known CHECK (overlap IN ('allow'));
CREATE FUNCTION dbbeat_make_partitions(days integer) RETURNS integer LANGUAGE plpgsql
    SET search_path FROM CURRENT AS $$
DECLARE
    today date := (now() AT TIME ZONE 'UTC')::date;
    made integer := 0;
    first_at timestamptz;
    next_at timestamptz;
    partition_name text;
BEGIN
    PERFORM pg_advisory_xact_lock('dbbeat_tick'::regclass::oid::bigint);
    FOR day IN 0 .. days - 1 LOOP
        first_at := (today + day)::timestamp AT TIME ZONE 'UTC';
        next_at := (today + day + 1)::timestamp AT TIME ZONE 'UTC';
        partition_name := 'dbbeat_tick_' || to_char(today + day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass(partition_name) IS NOT NULL;
        LOCK TABLE dbbeat_tick_default IN ACCESS EXCLUSIVE MODE;
        EXECUTE format('CREATE TABLE %I (LIKE dbbeat_tick INCLUDING ALL)', partition_name);
        EXECUTE format('WITH moved AS (DELETE FROM dbbeat_tick_default'
                       ' WHERE nominal_at >= %L AND nominal_at < %L RETURNING *)'
                       ' INSERT INTO %I SELECT * FROM moved', first_at, next_at, partition_name);
        EXECUTE format('ALTER TABLE dbbeat_tick ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                       partition_name, first_at, next_at);
        made := made + 1;
    END LOOP;
    RETURN made;
END $$;
