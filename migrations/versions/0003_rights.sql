-- These run with their owner's rights, so that who manages schedules needs none on what they write;
-- nothing of the caller's is looked up, and nobody else may put them on a table of their own.
DO $$
DECLARE
    home text := current_schema();
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'dbbeat_schedule_revise()', 'dbbeat_schedule_updated()', 'dbbeat_schedule_deleted()',
        'dbbeat_schedule_inserted()', 'dbbeat_schedule_written()', 'dbbeat_schedule_deleting()',
        'dbbeat_schedule_truncating()', 'dbbeat_retire_audit(interval)', 'dbbeat_trigger(text, jsonb, jsonb)',
        'dbbeat_backfill_ordered()',
        'dbbeat_go_on_from(uuid[], timestamptz[])'
    ] LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', name, home);
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', name);
    END LOOP;
END $$;
