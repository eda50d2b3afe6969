-- Who changed which schedule, and how it was before and after. Only the triggers below write it.
--
-- Of an insert and a deletion all is kept, of an update what changed: a schedule as it was at any time is
-- what it is now, or was at its end, with what later changes have as `before` laid over it, the newest
-- first. An update that changed nothing leaves nothing.
--
-- The story of the *when* is exact: a change of it bears the very instant from which the cursor is
-- planned anew, and tells where the cursor stood, so that afterwards each fire time can be held
-- against the *when* that was in force, and against what beat had come to by then.
CREATE TABLE dbbeat_audit (
    id             bigint GENERATED ALWAYS AS IDENTITY,
    schedule_id    uuid NOT NULL,
    name           text NOT NULL,
    changed_at     timestamptz NOT NULL,
    action         text NOT NULL,
    who            text NOT NULL,
    source         text NOT NULL,
    database_user  text NOT NULL,
    before         jsonb,
    after          jsonb,
    stood_at       timestamptz,
    PRIMARY KEY (schedule_id, id),
    CONSTRAINT dbbeat_audit_action_known CHECK (action IN ('found', 'insert', 'update', 'delete', 'truncate'))
);
-- By the names that schedules do not have any more: they were renamed, or deleted.
CREATE INDEX dbbeat_audit_former_name ON dbbeat_audit ((before ->> 'name')) WHERE before ? 'name';
CREATE INDEX dbbeat_audit_gone ON dbbeat_audit (changed_at, schedule_id) WHERE action IN ('delete', 'truncate');
COMMENT ON TABLE dbbeat_audit IS 'Who changed which schedule, when, and how it was before and after.';
COMMENT ON COLUMN dbbeat_audit.id IS 'The order of the changes of a schedule.';
COMMENT ON COLUMN dbbeat_audit.name IS 'What the schedule was called after the change.';
COMMENT ON COLUMN dbbeat_audit.changed_at IS 'Of a change of the when: the instant from which it counts.';
COMMENT ON COLUMN dbbeat_audit.action IS 'insert, update, delete, truncate; found: it was there when the audit began.';
COMMENT ON COLUMN dbbeat_audit.who IS 'The user of the application, where it says so (dbbeat.user); a replica of beat; else the database user.';
COMMENT ON COLUMN dbbeat_audit.source IS 'By which way (dbbeat.source): api, cli, django, web, code, beat; sql where nothing was said.';
COMMENT ON COLUMN dbbeat_audit.database_user IS 'Who was logged in to the database.';
COMMENT ON COLUMN dbbeat_audit.before IS 'How it was: of an update what changed, of a deletion all.';
COMMENT ON COLUMN dbbeat_audit.after IS 'How it became: of an update what changed, of an insert all.';
COMMENT ON COLUMN dbbeat_audit.stood_at IS 'The first fire time, by the when before the change, that beat had not come to; null: none was planned.';

-- What is there already: how it came about is not known.
INSERT INTO dbbeat_audit (schedule_id, name, changed_at, action, who, source, database_user)
SELECT id, name, clock_timestamp(), 'found', session_user, 'sql', session_user FROM dbbeat_schedule;

-- A range that was not sent is looked for by its end.
CREATE INDEX dbbeat_tick_ranges ON dbbeat_tick (schedule_id, last_at) WHERE last_at IS NOT NULL;

-- The columns that say when; what of a change counts from an instant on. The name is one of them, as
-- an H in a cron expression is spread by it.
CREATE FUNCTION dbbeat_when_columns() RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY['name', 'kind', 'expression', 'timezone', 'start_at', 'end_at', 'max_runs', 'jitter', 'exclude', 'state']
$$;

-- Lays one after the other over those before it.
CREATE AGGREGATE dbbeat_laid_over(jsonb) (SFUNC = jsonb_concat, STYPE = jsonb, INITCOND = '{}');

-- A schedule as the audit keeps it: without what the row says itself, and what each change changes.
CREATE FUNCTION dbbeat_audited(schedule jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT schedule - ARRAY['id', 'version', 'created_at', 'updated_at']
$$;

-- Who acts in this transaction, as it says by set_config('dbbeat.user', …, true) and 'dbbeat.source'.
CREATE FUNCTION dbbeat_actor(OUT who text, OUT source text) LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(left(current_setting('dbbeat.user', true), 500), ''), session_user),
           coalesce(nullif(left(current_setting('dbbeat.source', true), 50), ''), 'sql')
$$;

CREATE OR REPLACE FUNCTION dbbeat_schedule_inserted() RETURNS trigger LANGUAGE plpgsql
    SET timezone = 'UTC' SET intervalstyle = 'postgres' AS $$
DECLARE
    -- Not now(): what passed while a long transaction was open is not due.
    since timestamptz := clock_timestamp();
BEGIN
    INSERT INTO dbbeat_cursor (schedule_id, shard, version, due_at, replan_from, held_at)
    SELECT id, get_byte(uuid_send(id), 0), version,
           CASE WHEN state = 'active' THEN since END, since,
           CASE WHEN state <> 'active' THEN since END
    FROM new_rows;
    INSERT INTO dbbeat_audit (schedule_id, name, changed_at, action, who, source, database_user, after)
    SELECT n.id, n.name, since, 'insert', actor.who, actor.source, session_user,
           dbbeat_audited(to_jsonb(n))
    FROM new_rows n, dbbeat_actor() actor;
    PERFORM pg_notify('dbbeat_' || TG_TABLE_SCHEMA, 'schedule');
    RETURN NULL;
END $$;

-- After dbbeat_schedule_updated, by the order of the names: the cursor tells from when a new *when*
-- counts, and where it stood. EXECUTE for the reason that stands there.
CREATE FUNCTION dbbeat_schedule_written() RETURNS trigger LANGUAGE plpgsql
    SET timezone = 'UTC' SET intervalstyle = 'postgres' SET enable_hashjoin = 'on' AS $$
BEGIN
    EXECUTE $statement$
        WITH image AS MATERIALIZED (
            SELECT n.id, n.name, n.state, dbbeat_audited(to_jsonb(o)) AS old, dbbeat_audited(to_jsonb(n)) AS new
            FROM new_rows n JOIN old_rows o USING (id)
        ), difference AS (
            SELECT i.id, i.name, i.state, d.before, d.after
            FROM image i CROSS JOIN LATERAL (
                SELECT jsonb_object_agg(one.key, i.old -> one.key) AS before, jsonb_object_agg(one.key, one.value) AS after
                FROM jsonb_each(i.new) one WHERE one.value <> i.old -> one.key
            ) d
            WHERE d.after IS NOT NULL
        )
        INSERT INTO dbbeat_audit (schedule_id, name, changed_at, action, who, source, database_user,
                                  before, after, stood_at)
        SELECT d.id, d.name,
               CASE WHEN d.state = 'active' AND d.after ?| dbbeat_when_columns() AND c.replan_from IS NOT NULL
                    THEN c.replan_from ELSE clock_timestamp() END,
               'update', actor.who, actor.source, session_user, d.before, d.after, c.nominal_at
        FROM difference d LEFT JOIN dbbeat_cursor c ON c.schedule_id = d.id
             CROSS JOIN dbbeat_actor() actor
    $statement$;
    RETURN NULL;
END $$;
CREATE TRIGGER dbbeat_schedule_written AFTER UPDATE ON dbbeat_schedule
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION dbbeat_schedule_written();

-- Before dbbeat_schedule_deleted, by the order of the names, while the cursor is there; waits for a claim
-- under way, as that one does. EXECUTE as above.
CREATE FUNCTION dbbeat_schedule_deleting() RETURNS trigger LANGUAGE plpgsql
    SET timezone = 'UTC' SET intervalstyle = 'postgres' SET enable_hashjoin = 'on' AS $$
BEGIN
    EXECUTE $statement$
        WITH stood AS MATERIALIZED (
            SELECT c.schedule_id, c.nominal_at FROM dbbeat_cursor c JOIN old_rows o ON o.id = c.schedule_id
            FOR UPDATE OF c
        )
        INSERT INTO dbbeat_audit (schedule_id, name, changed_at, action, who, source, database_user,
                                  before, stood_at)
        SELECT o.id, o.name, clock_timestamp(), 'delete', actor.who, actor.source, session_user,
               dbbeat_audited(to_jsonb(o)), stood.nominal_at
        FROM old_rows o LEFT JOIN stood ON stood.schedule_id = o.id CROSS JOIN dbbeat_actor() actor
    $statement$;
    RETURN NULL;
END $$;
CREATE TRIGGER dbbeat_schedule_audited AFTER DELETE ON dbbeat_schedule
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION dbbeat_schedule_deleting();

-- Before, as afterwards nobody knows what there was. No claim is under way: TRUNCATE waits for them.
CREATE FUNCTION dbbeat_schedule_truncating() RETURNS trigger LANGUAGE plpgsql
    SET timezone = 'UTC' SET intervalstyle = 'postgres' AS $$
DECLARE
    at timestamptz := clock_timestamp();
BEGIN
    INSERT INTO dbbeat_tick (schedule_id, nominal_at, task_id, state, due_at, replica, reason)
    SELECT schedule_id, nominal_at, gen_random_uuid(), 'missed', coalesce(due_at, nominal_at), 'database',
           'the schedule was deleted before this fire time was dispatched'
    FROM dbbeat_cursor WHERE nominal_at <= at AND (due_at IS NOT NULL OR waits_since IS NOT NULL);
    INSERT INTO dbbeat_audit (schedule_id, name, changed_at, action, who, source, database_user, before, stood_at)
    SELECT s.id, s.name, at, 'truncate', actor.who, actor.source, session_user,
           dbbeat_audited(to_jsonb(s)), c.nominal_at
    FROM dbbeat_schedule s LEFT JOIN dbbeat_cursor c ON c.schedule_id = s.id CROSS JOIN dbbeat_actor() actor;
    RETURN NULL;
END $$;
CREATE TRIGGER dbbeat_schedule_truncating BEFORE TRUNCATE ON dbbeat_schedule
    FOR EACH STATEMENT EXECUTE FUNCTION dbbeat_schedule_truncating();

-- One step of forgetting schedules that were deleted longer than `keep` ago; says how many changes went.
-- Of a schedule its deletion goes last, so that what is begun is found again.
CREATE FUNCTION dbbeat_retire_audit(keep interval) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    deleted bigint;
BEGIN
    WITH old AS MATERIALIZED (
        SELECT a.schedule_id, a.id
        FROM (SELECT g.schedule_id FROM dbbeat_audit g
              WHERE g.action IN ('delete', 'truncate') AND g.changed_at < now() - keep
                AND NOT EXISTS (SELECT FROM dbbeat_schedule s WHERE s.id = g.schedule_id)
              ORDER BY g.changed_at, g.schedule_id LIMIT 500) gone
             JOIN dbbeat_audit a USING (schedule_id)
        ORDER BY a.id LIMIT 5000
    )
    DELETE FROM dbbeat_audit a USING old WHERE a.schedule_id = old.schedule_id AND a.id = old.id;
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END $$;
