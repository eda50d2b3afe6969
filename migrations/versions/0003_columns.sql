-- What a schedule says besides: more kinds of it, and what people note about it.
ALTER TABLE dbbeat_schedule
    ADD COLUMN exclude jsonb NOT NULL DEFAULT '[]',
    ADD COLUMN catch_up_limit integer,
    ADD COLUMN max_concurrent integer NOT NULL DEFAULT 1,
    ADD COLUMN pause_after integer,
    ADD COLUMN note text,
    ADD COLUMN description text NOT NULL DEFAULT '',
    ADD CONSTRAINT dbbeat_schedule_exclude_is_array CHECK (jsonb_typeof(exclude) = 'array'),
    ADD CONSTRAINT dbbeat_schedule_catch_up_limit_positive CHECK (catch_up_limit > 0),
    ADD CONSTRAINT dbbeat_schedule_max_concurrent_range CHECK (max_concurrent BETWEEN 1 AND 10000),
    ADD CONSTRAINT dbbeat_schedule_pause_after_positive CHECK (pause_after > 0),
    DROP CONSTRAINT dbbeat_schedule_kind_known,
    ADD CONSTRAINT dbbeat_schedule_kind_known
        CHECK (kind IN ('cron', 'crontab', 'interval', 'rrule', 'solar', 'once')),
    DROP CONSTRAINT dbbeat_schedule_catch_up_known,
    ADD CONSTRAINT dbbeat_schedule_catch_up_known CHECK (catch_up IN ('latest', 'all', 'none'));
COMMENT ON COLUMN dbbeat_schedule.kind IS 'cron, crontab, interval, rrule, solar or once: how to read expression.';
COMMENT ON COLUMN dbbeat_schedule.exclude IS 'Fire times that are left out: a JSON array of dates, local times and rules (RRULE).';
COMMENT ON COLUMN dbbeat_schedule.catch_up_limit IS 'Of fire times that are caught up on, at most so many, the newest; null: all.';
COMMENT ON COLUMN dbbeat_schedule.max_concurrent IS 'How many of its ticks may be on their way or running at once, unless overlap is allow.';
COMMENT ON COLUMN dbbeat_schedule.pause_after IS 'Paused by beat after so many ticks in a row that failed or are dead; null: never.';
COMMENT ON COLUMN dbbeat_schedule.note IS 'Why it is paused, in the words of who paused it.';
COMMENT ON COLUMN dbbeat_schedule.description IS 'What it is for, in words.';

-- Before a schedule changes: its version grows, and mending what beat refused makes it active again.
CREATE OR REPLACE FUNCTION dbbeat_schedule_revise() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    new_when boolean := (NEW.kind, NEW.expression, NEW.timezone, NEW.start_at, NEW.end_at, NEW.max_runs, NEW.exclude)
        IS DISTINCT FROM (OLD.kind, OLD.expression, OLD.timezone, OLD.start_at, OLD.end_at, OLD.max_runs, OLD.exclude);
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
    IF OLD.state = 'paused' AND NEW.state <> 'paused' AND NEW.note IS NOT DISTINCT FROM OLD.note THEN
        NEW.note := NULL;
    END IF;
    NEW.version := OLD.version + 1;
    NEW.updated_at := now();
    RETURN NEW;
END $$;

-- Waits for a claim under way: the claim holds the cursor's row until its tick is recorded.
-- A fire time after an instant from which nothing was planned yet is void: the new *when* has its own.
-- Fire times that had passed and were not decided keep the *when* that they passed by (`before`). A change
-- of the overlap lets one that waits for a run be decided anew, and counts what is running just now.
-- EXECUTE plans anew each time: a plan kept from the update of one row would compare each row with
-- each when ten thousand are updated.
CREATE OR REPLACE FUNCTION dbbeat_schedule_updated() RETURNS trigger LANGUAGE plpgsql
    SET enable_hashjoin = 'on' AS $$
DECLARE
    -- Whether it matters now what is under way, and did not before.
    asks boolean;
BEGIN
    EXECUTE $statement$
        WITH change AS (
            SELECT n.id, n.version, n.state = 'active' AS active,
                   n.state = 'finished' AS finished, o.state = 'finished' AS was_finished,
                   n.state = 'active' AND (o.state <> 'active'
                       OR (n.kind, n.expression, n.timezone, n.start_at, n.end_at, n.max_runs, n.jitter, n.exclude)
                          IS DISTINCT FROM
                          (o.kind, o.expression, o.timezone, o.start_at, o.end_at, o.max_runs, o.jitter, o.exclude)
                       -- An H in a cron expression is spread by the name.
                       OR (n.name <> o.name AND n.kind = 'cron' AND n.expression ~ '(?<![A-Za-z@])[Hh](?![A-Za-z])')
                   ) AS replan,
                   (n.overlap, n.max_concurrent) <> (o.overlap, o.max_concurrent) AS other_overlap,
                   CASE WHEN o.state = 'active' THEN jsonb_build_object(
                       'name', o.name, 'kind', o.kind, 'expression', o.expression, 'timezone', o.timezone,
                       'exclude', o.exclude::text,
                       'start_at', to_char(o.start_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US+00:00'),
                       'end_at', to_char(o.end_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US+00:00'))
                   END AS before
            FROM new_rows n JOIN old_rows o USING (id)
        )
        UPDATE dbbeat_cursor c
        SET version = change.version,
            nominal_at = CASE WHEN c.nominal_at > c.replan_from THEN NULL ELSE c.nominal_at END,
            due_at = CASE WHEN NOT active THEN NULL
                          WHEN replan OR (other_overlap AND c.waits_for = 'run') THEN clock_timestamp()
                          ELSE c.due_at END,
            replan_from = CASE WHEN replan THEN clock_timestamp() ELSE c.replan_from END,
            held_at = CASE WHEN finished THEN NULL WHEN active THEN c.held_at
                           ELSE coalesce(c.held_at, clock_timestamp()) END,
            runs = CASE WHEN active AND was_finished THEN 0 ELSE c.runs END,
            waits_for = CASE WHEN active AND NOT replan THEN c.waits_for END,
            waits_since = CASE WHEN active AND NOT replan THEN c.waits_since END,
            range_at = CASE WHEN active AND NOT replan THEN c.range_at END,
            range_until = CASE WHEN active AND NOT replan THEN c.range_until END,
            range_state = CASE WHEN active AND NOT replan THEN c.range_state END,
            before = CASE WHEN NOT active OR c.held_at IS NOT NULL THEN NULL
                          WHEN replan AND c.replan_from IS NULL AND c.nominal_at <= clock_timestamp()
                              THEN change.before
                          ELSE c.before END
        FROM change WHERE c.schedule_id = change.id
    $statement$;
    EXECUTE 'SELECT EXISTS (SELECT FROM new_rows n JOIN old_rows o USING (id)'
            ' WHERE o.overlap = ''allow'' AND n.overlap <> ''allow'')' INTO asks;
    IF asks THEN
        EXECUTE $statement$
            INSERT INTO dbbeat_open (schedule_id, nominal_at, task_id)
            SELECT t.schedule_id, t.nominal_at, t.task_id
            FROM new_rows n JOIN old_rows o USING (id) CROSS JOIN LATERAL (
                SELECT schedule_id, nominal_at, task_id FROM dbbeat_tick
                WHERE schedule_id = n.id AND (awaited OR state = 'recorded') AND nominal_at > now() - interval '7 days'
                ORDER BY nominal_at DESC LIMIT 1000
            ) AS t
            WHERE o.overlap = 'allow' AND n.overlap <> 'allow'
            ON CONFLICT DO NOTHING
        $statement$;
    END IF;
    PERFORM pg_notify('dbbeat_' || TG_TABLE_SCHEMA, 'schedule');
    RETURN NULL;
END $$;
