-- views
DROP VIEW dbbeat_upcoming, dbbeat_history;
DROP INDEX dbbeat_tick_recorded;
DROP INDEX dbbeat_schedule_by_state, dbbeat_schedule_by_task, dbbeat_schedule_by_queue,
    dbbeat_schedule_by_owner, dbbeat_schedule_by_label, dbbeat_schedule_by_word;

-- imports
DROP FUNCTION dbbeat_go_on_from(uuid[], timestamptz[]);

-- audit
DROP TRIGGER dbbeat_schedule_written ON dbbeat_schedule;
DROP TRIGGER dbbeat_schedule_truncating ON dbbeat_schedule;
DROP TRIGGER dbbeat_schedule_audited ON dbbeat_schedule;
DROP FUNCTION dbbeat_schedule_written(), dbbeat_schedule_deleting(), dbbeat_schedule_truncating();
CREATE OR REPLACE FUNCTION dbbeat_schedule_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO dbbeat_cursor (schedule_id, shard, version, due_at, replan_from, held_at)
    SELECT id, get_byte(uuid_send(id), 0), version,
           CASE WHEN state = 'active' THEN clock_timestamp() END,
           clock_timestamp(),
           CASE WHEN state <> 'active' THEN clock_timestamp() END
    FROM new_rows;
    PERFORM pg_notify('dbbeat_' || TG_TABLE_SCHEMA, 'schedule');
    RETURN NULL;
END $$;
DROP FUNCTION dbbeat_retire_audit(interval), dbbeat_actor(), dbbeat_audited(jsonb), dbbeat_when_columns();
DROP AGGREGATE dbbeat_laid_over(jsonb);
DROP INDEX dbbeat_tick_ranges;
DROP TABLE dbbeat_audit;
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION dbbeat_schedule_inserted() SECURITY DEFINER SET search_path = %I, pg_temp',
                   current_schema());
END $$;

-- orders
DROP FUNCTION dbbeat_trigger;
DROP TABLE dbbeat_backfill;
DROP FUNCTION dbbeat_backfill_ordered;
ALTER TABLE dbbeat_tick DROP COLUMN arguments;

-- catch_up
UPDATE dbbeat_cursor c SET due_at = coalesce(c.due_at, now())
FROM dbbeat_schedule s WHERE s.id = c.schedule_id AND s.state = 'active' AND c.waits_for IS NOT NULL;
UPDATE dbbeat_tick SET state = 'coalesced' WHERE state = 'overlapped';
UPDATE dbbeat_tick SET state = 'sent' WHERE state = 'cancelled';
ALTER TABLE dbbeat_tick
    DROP CONSTRAINT dbbeat_tick_state_known,
    ADD CONSTRAINT dbbeat_tick_state_known
        CHECK (state IN ('recorded', 'sent', 'missed', 'coalesced', 'paused', 'dead'));
CREATE OR REPLACE FUNCTION dbbeat_schedule_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH gone AS (
        DELETE FROM dbbeat_cursor c USING old_rows o WHERE c.schedule_id = o.id
        RETURNING c.schedule_id, c.nominal_at, c.due_at
    )
    INSERT INTO dbbeat_tick (schedule_id, nominal_at, task_id, state, due_at, replica, reason)
    SELECT schedule_id, nominal_at, gen_random_uuid(), 'missed', due_at, 'database',
           'the schedule was deleted before this fire time was dispatched'
    FROM gone WHERE nominal_at <= clock_timestamp() AND due_at IS NOT NULL;
    PERFORM pg_notify('dbbeat_' || TG_TABLE_SCHEMA, 'schedule');
    RETURN NULL;
END $$;

-- columns
UPDATE dbbeat_schedule SET state = 'invalid', kind = 'cron', reason = 'kind rrule is not known to this version'
WHERE kind = 'rrule';
UPDATE dbbeat_schedule SET catch_up = 'latest' WHERE catch_up <> 'latest';
CREATE OR REPLACE FUNCTION dbbeat_schedule_revise() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    new_when boolean := (NEW.kind, NEW.expression, NEW.timezone, NEW.start_at, NEW.end_at, NEW.max_runs)
        IS DISTINCT FROM (OLD.kind, OLD.expression, OLD.timezone, OLD.start_at, OLD.end_at, OLD.max_runs);
    new_what boolean := (NEW.task, NEW.args, NEW.kwargs, NEW.options, NEW.overlap)
        IS DISTINCT FROM (OLD.task, OLD.args, OLD.kwargs, OLD.options, OLD.overlap);
BEGIN
    IF NEW.id <> OLD.id THEN
        RAISE EXCEPTION 'dbbeat_schedule.id of % cannot be changed: task ids are made from it', OLD.name;
    END IF;
    IF NEW.state = OLD.state AND ((OLD.state = 'invalid' AND (new_when OR new_what))
                               OR (OLD.state = 'finished' AND new_when)) THEN
        NEW.state := 'active';
    END IF;
    IF NEW.state IN ('active', 'paused') THEN
        NEW.reason := NULL;
    END IF;
    NEW.version := OLD.version + 1;
    NEW.updated_at := now();
    RETURN NEW;
END $$;
CREATE OR REPLACE FUNCTION dbbeat_schedule_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH change AS (
        SELECT n.id, n.version, n.state = 'active' AS active,
               n.state = 'finished' AS finished, o.state = 'finished' AS was_finished,
               n.state = 'active' AND (o.state <> 'active'
                   OR (n.kind, n.expression, n.timezone, n.start_at, n.end_at, n.max_runs, n.jitter)
                      IS DISTINCT FROM
                      (o.kind, o.expression, o.timezone, o.start_at, o.end_at, o.max_runs, o.jitter)
               ) AS replan
        FROM new_rows n JOIN old_rows o USING (id)
    )
    UPDATE dbbeat_cursor c
    SET version = change.version,
        due_at = CASE WHEN NOT active THEN NULL WHEN replan THEN clock_timestamp() ELSE c.due_at END,
        replan_from = CASE WHEN replan THEN clock_timestamp() ELSE c.replan_from END,
        held_at = CASE WHEN finished THEN NULL WHEN active THEN c.held_at
                       ELSE coalesce(c.held_at, clock_timestamp()) END,
        runs = CASE WHEN active AND was_finished THEN 0 ELSE c.runs END
    FROM change WHERE c.schedule_id = change.id;
    PERFORM pg_notify('dbbeat_' || TG_TABLE_SCHEMA, 'schedule');
    RETURN NULL;
END $$;
DO $$
DECLARE
    home text := current_schema();
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['revise', 'updated', 'deleted'] LOOP
        EXECUTE format('ALTER FUNCTION dbbeat_schedule_%s() SECURITY DEFINER SET search_path = %I, pg_temp', name, home);
    END LOOP;
END $$;
ALTER TABLE dbbeat_schedule
    DROP COLUMN exclude, DROP COLUMN catch_up_limit, DROP COLUMN max_concurrent, DROP COLUMN pause_after,
    DROP COLUMN note, DROP COLUMN description,
    DROP CONSTRAINT dbbeat_schedule_kind_known,
    ADD CONSTRAINT dbbeat_schedule_kind_known
        CHECK (kind IN ('cron', 'crontab', 'interval', 'solar', 'once')),
    DROP CONSTRAINT dbbeat_schedule_catch_up_known,
    ADD CONSTRAINT dbbeat_schedule_catch_up_known CHECK (catch_up IN ('latest'));

-- catch_up, once the trigger that wrote to them is as it was
ALTER TABLE dbbeat_cursor
    DROP COLUMN waits_for, DROP COLUMN waits_since, DROP COLUMN range_at, DROP COLUMN range_until,
    DROP COLUMN range_state, DROP COLUMN before;
DROP TABLE dbbeat_pace, dbbeat_open, dbbeat_cancelled;
